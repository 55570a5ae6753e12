#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tensorbus/device.hpp>
#include <tensorbus/id.hpp>
#include <tensorbus/options.hpp>
#include <tensorbus/origin.hpp>
#include <tensorbus/sample_header.hpp>
#include <tensorbus/stats.hpp>
#include <tensorbus/value.hpp>
#include <vector>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/tensor/layout.hpp"

namespace tensorbus {

struct TensorEntry;
namespace bus {
struct ReceiveOptions;
struct SampleData;
}  // namespace bus
namespace memory {
class DeviceKeeper;
}
namespace link {
class Lease;
class LeaseSource;
}  // namespace link

// A received tensor: memory of its owner, leased for as long as this object or a copy of it lives,
// whatever happens to the publisher. Read-only, unless the subscriber asked for more:
//
//   tensorbus::Subscriber subscriber("camera/image", {.access = tensorbus::Access::kPrivate});
//   if (auto sample = subscriber.receive(std::chrono::seconds(1)))
//     for (float& value : sample->tensor().as_mutable<float>()) value /= 255;
class TENSORBUS_API Tensor {
 public:
  const Layout& layout() const noexcept { return layout_; }
  DType dtype() const noexcept { return layout_.dtype; }
  const Dims& shape() const noexcept { return layout_.shape; }
  const Dims& strides() const noexcept { return layout_.strides; }  // in elements
  // The first element; of a tensor on a GPU for its kernels, not for the host.
  const std::byte* data() const noexcept { return data_; }
  Device device() const noexcept { return device_; }
  // Where its publisher had it. Another device than device() if this process could not use that,
  // and the tensor came through host memory: by the ordinals of its owner then.
  Device published_on() const noexcept { return published_on_; }

  // Of a tensor on a GPU: what is enqueued on the stream (a CUstream or cudaStream_t of its device;
  // null is the legacy default stream) from now on finds it as it was published, and has run before
  // its owner uses the memory again. To be called for every stream that works with it, before that
  // does; streams outlive the tensor. It does not wait. Nothing for host memory. Throws
  // Error(kUnsupported) for a stream that is being captured into a graph. `of`: the GPU that the
  // stream is of, if it is another one that can reach device()'s memory.
  void use_on(void* stream, std::optional<Device> of = std::nullopt) const;
  // False: its publisher died before the GPU had written it. Asked after the work with it is done,
  // it says whether that was for nothing.
  bool intact() const noexcept;

  // The elements of a contiguous tensor. Throws Error(kInvalidArgument) for another element type,
  // a tensor that is not contiguous, or one whose publisher placed it at an address that is no
  // multiple of T's alignment.
  template <typename T>
  std::span<const T> as() const {
    require_elements_of(dtype_of<T>(), alignof(T));
    return {reinterpret_cast<const T*>(data_), layout_.elements()};
  }

  // May it be written? Who sees it then is what the subscriber asked for (Access, options.hpp).
  bool writable() const noexcept { return writable_; }
  // The same memory, to be written. Throw Error(kInvalidArgument) for a read-only tensor.
  std::byte* mutable_data() const;
  template <typename T>
  std::span<T> as_mutable() const {
    require_elements_of(dtype_of<T>(), alignof(T));
    return {reinterpret_cast<T*>(mutable_data()), layout_.elements()};
  }

 private:
  friend struct bus::SampleData;
  // Throws unless it is contiguous, of this type, in host memory, and where such elements may lie.
  void require_elements_of(DType dtype, std::size_t alignment) const;

  enum class Reach { kYes, kSegmentMissing, kOutOfReach };
  Reach find_on_device(link::LeaseSource& owner, const TensorEntry& entry, const ByteSpan& span,
                       const bus::ReceiveOptions& how, link::Lease& lease);

  Layout layout_;
  const std::byte* data_ = nullptr;
  Device device_{};
  Device published_on_{};
  bool writable_ = false;
  std::shared_ptr<const void> keeper_;         // the lease, or the memory of a copy
  memory::DeviceKeeper* on_device_ = nullptr;  // of a tensor on a GPU: the same
};

// One received message. Moves, does not copy; its tensors may outlive it. One that is empty, or was
// moved from, has no tensors and an empty header, and what cannot say so throws Error(kClosed).
class TENSORBUS_API Sample {
 public:
  Sample();
  Sample(Sample&&) noexcept;
  Sample& operator=(Sample&&) noexcept;
  ~Sample();

  const SampleHeader& header() const noexcept;
  std::span<const Tensor> tensors() const noexcept;
  // The only tensor. Throws Error(kInvalidArgument) if there is not exactly one.
  const Tensor& tensor() const;
  // The tensor at this key of the fields: sample.tensor("image"). Throws Error(kInvalidArgument) if
  // there is none.
  const Tensor& tensor(std::string_view key) const;
  // The small fields as they came, MessagePack, and decoded (throws Error(kProtocol) if they are
  // malformed). Empty if the message was nothing but a tensor.
  std::span<const std::byte> field_bytes() const noexcept;
  Value fields() const;

  // The same in writable memory of this process alone: it holds no lease, whoever keeps it. Tensors
  // that overlap do so in the copy. Those on a GPU are copied there, in the order of its streams:
  // use_on() of the copy waits for them. Throws Error(kOutOfMemory).
  Sample copy() const;

 private:
  friend struct bus::SampleData;
  const bus::SampleData& parts() const;

  std::unique_ptr<bus::SampleData> parts_;
};

}  // namespace tensorbus
