#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <tensorbus/device.hpp>
#include <tensorbus/layout.hpp>
#include <tensorbus/origin.hpp>
#include <vector>

namespace tensorbus::inline v0 {

// A tensor that lies somewhere in this process.
struct TensorView {
  const void* data = nullptr;  // the first element
  Layout layout;
  Device device{};
  // Of a tensor on a GPU: the stream of that device (a CUstream or cudaStream_t) on which it is
  // written. Whoever receives it reads it when what is enqueued there now has run. Null: the legacy
  // default stream. Memory that has to be copied is read in that stream's order, also after
  // publish() has returned: free it in the same order, as PyTorch's allocator does.
  void* stream = nullptr;
  // Of a tensor on a GPU: who keeps its memory for as long as somebody reads it. With one the
  // tensor is published as it lies, where the driver can do that, and must not be written before
  // its readers are through: then the keeper is let go of, by a thread of Tensorbus. Without one it
  // is copied on the GPU, as what cannot be given to others always is (bytes_copied).
  std::shared_ptr<const void> keeper{};

  // Row-major: TensorView::of(pixels.data(), {1080, 1920, 3}).
  template <typename T>
  static TensorView of(const T* data, Dims shape) {
    return {data, Layout::contiguous(dtype_of<T>(), std::move(shape))};
  }
};

// What publish() takes: tensors, and the small fields beside them as MessagePack (Value::encode()).
struct Message {
  std::vector<TensorView> tensors{};
  std::span<const std::byte> fields{};
  std::uint64_t fingerprint = 0;   // of the message type; 0: untyped
  std::optional<Origin> origin{};  // set by a bridge that publishes what came from elsewhere
};

}  // namespace tensorbus::inline v0
