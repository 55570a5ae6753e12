#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <tensorbus/values/device.hpp>
#include <tensorbus/values/layout.hpp>
#include <tensorbus/values/origin.hpp>
#include <vector>

namespace tensorbus::inline v0 {

// A tensor in memory of this process. It owns nothing except `keeper`.
struct TensorView {
  const void* data = nullptr;  // the first element
  Layout layout;
  Device device{};
  // For a tensor on a GPU: the stream of that device (a CUstream or cudaStream_t) on which it is
  // written. Receivers read it after the stream's present work has run. Null: the legacy default
  // stream. If the memory must be copied, the copy runs in the order of this stream, perhaps after
  // publish() has returned. So free the memory in the order of this stream, as PyTorch's allocator
  // does.
  void* stream = nullptr;
  // For a tensor on a GPU: keeps its memory while it is read. With a keeper, the tensor is
  // published in place, where the driver supports this, and must not be written to until its
  // readers are done; then a thread of Tensorbus releases the keeper. Without a keeper, or if other
  // processes cannot get the memory, it is copied on the GPU (bytes_copied).
  std::shared_ptr<const void> keeper{};

  // Row-major: TensorView::of(pixels.data(), {1080, 1920, 3}).
  template <typename T>
  static TensorView of(const T* data, Dims shape) {
    return {data, Layout::contiguous(dtype_of<T>(), std::move(shape))};
  }
};

// The argument of publish(): tensors, and the small fields beside them as MessagePack
// (Value::encode()).
struct Message {
  std::vector<TensorView> tensors{};
  std::span<const std::byte> fields{};
  std::uint64_t fingerprint = 0;   // of the message type; 0: untyped
  std::optional<Origin> origin{};  // set by a bridge that publishes samples from elsewhere
};

}  // namespace tensorbus::inline v0
