#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <tensorbus/values/device.hpp>
#include <tensorbus/values/id.hpp>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/sample_header.hpp>
#include <tensorbus/values/value.hpp>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/tensor/layout.hpp"

namespace tensorbus::device {
class DeviceKeeper;
}
namespace tensorbus::tensor {
struct TensorEntry;
}
namespace tensorbus::link {
class Lease;
class LeaseSource;
struct MirrorOrigin;
class TracedSample;
}  // namespace tensorbus::link

namespace tensorbus::bus {

struct ReceiveOptions;
struct SampleData;

// A received tensor in memory of its owner, leased as long as this object or a copy of it exists.
// include/tensorbus/tensor.hpp describes the calls and their errors.
class TENSORBUS_API Tensor {
 public:
  const Layout& layout() const noexcept { return layout_; }
  DType dtype() const noexcept { return layout_.dtype; }
  const Dims& shape() const noexcept { return layout_.shape; }
  const Dims& strides() const noexcept { return layout_.strides; }  // in elements
  const std::byte* data() const noexcept { return data_; }
  Device device() const noexcept { return device_; }
  // Returns the publishing device, in its owner's numbering if the tensor came through host memory.
  Device published_on() const noexcept { return published_on_; }

  void use_on(void* stream, std::optional<Device> of = std::nullopt) const;
  bool intact() const noexcept;

  template <typename T>
  std::span<const T> as() const {
    require_elements_of(dtype_of<T>(), alignof(T));
    return {reinterpret_cast<const T*>(data_), layout_.elements()};
  }

  bool writable() const noexcept { return writable_; }
  std::byte* mutable_data() const;
  template <typename T>
  std::span<T> as_mutable() const {
    require_elements_of(dtype_of<T>(), alignof(T));
    return {reinterpret_cast<T*>(mutable_data()), layout_.elements()};
  }

 private:
  friend struct SampleData;
  // Throws unless the tensor is contiguous, of this type, in host memory, and aligned.
  void require_elements_of(DType dtype, std::size_t alignment) const;

  enum class Reach { kYes, kSegmentMissing, kOutOfReach };
  Reach find_on_device(link::LeaseSource& owner, const tensor::TensorEntry& entry,
                       const ByteSpan& span, const ReceiveOptions& how, link::Lease& lease);

  Layout layout_;
  const std::byte* data_ = nullptr;
  Device device_{};
  Device published_on_{};
  bool writable_ = false;
  std::shared_ptr<const void> keeper_;         // the lease, or the memory of a copy
  device::DeviceKeeper* on_device_ = nullptr;  // for a tensor on a GPU: the same object
};

// A received message; its tensors may outlive it. See include/tensorbus/sample.hpp.
class TENSORBUS_API Sample {
 public:
  Sample();
  Sample(Sample&&) noexcept;
  Sample& operator=(Sample&&) noexcept;
  ~Sample();

  const SampleHeader& header() const noexcept;
  // Returns the original publisher if a mirror published the sample, else null. Valid while the
  // sample exists.
  const link::MirrorOrigin* mirrored() const noexcept;
  // Returns the object that records the use of the sample in a trace, or null.
  const link::TracedSample* traced() const noexcept;
  std::span<const Tensor> tensors() const noexcept;
  const Tensor& tensor() const;
  const Tensor& tensor(std::string_view key) const;
  std::span<const std::byte> field_bytes() const noexcept;
  Value fields() const;

  // Returns a copy in writable, private memory.
  Sample copy() const;

 private:
  friend struct SampleData;
  const SampleData& parts() const;

  std::unique_ptr<SampleData> parts_;
};

}  // namespace tensorbus::bus
