#include "tensorbus/bus/subscribe/sample.hpp"

#include "tensorbus/bus/subscribe/sample_data.hpp"
#include "tensorbus/platform/limits.hpp"

namespace tensorbus::bus {

void Tensor::use_on(void* stream, std::optional<Device> of) const {
  if (on_device_ == nullptr) return;
  on_device_->use_on(device::GpuStream(device::Gpu::at(of.value_or(device_).ordinal), stream));
}

bool Tensor::intact() const noexcept { return on_device_ == nullptr || on_device_->intact(); }

void Tensor::require_elements_of(DType dtype, std::size_t alignment) const {
  if (!device_.is_host())
    throw Error(Code::kInvalidArgument,
                "this tensor lies on a GPU: give data() to a kernel, the host cannot use it");
  if (layout_.dtype != dtype)
    throw Error(Code::kInvalidArgument, "this tensor is " + std::string(name_of(layout_.dtype)) +
                                            ", not " + std::string(name_of(dtype)));
  if (!layout_.is_contiguous())
    throw Error(Code::kInvalidArgument, "this tensor is not contiguous: use data(), strides()");
  if (reinterpret_cast<std::uintptr_t>(data_) % alignment != 0)
    throw Error(Code::kInvalidArgument,
                "the elements of this tensor are not aligned: use data() and memcpy");
}

std::byte* Tensor::mutable_data() const {
  if (!writable_)
    throw Error(
        Code::kInvalidArgument,
        "this tensor is read-only: to write to it, subscribe with Access::kPrivate (only this "
        "subscriber sees writes) or Access::kShared (all processes see them), or copy it");
  return const_cast<std::byte*>(data_);  // it points into a mapping that is writable
}

Sample::Sample() = default;
Sample::Sample(Sample&&) noexcept = default;
Sample& Sample::operator=(Sample&&) noexcept = default;
Sample::~Sample() = default;

namespace {

const SampleHeader kNoHeader;

}  // namespace

const SampleData& Sample::parts() const {
  if (!parts_) throw Error(Code::kClosed, "this sample is empty, or was moved from");
  return *parts_;
}

const SampleHeader& Sample::header() const noexcept { return parts_ ? parts_->header : kNoHeader; }
const link::MirrorOrigin* Sample::mirrored() const noexcept {
  return parts_ ? parts_->mirrored : nullptr;
}
const link::TracedSample* Sample::traced() const noexcept {
  return parts_ ? parts_->traced.get() : nullptr;
}
std::span<const Tensor> Sample::tensors() const noexcept {
  return parts_ ? parts_->tensors.span() : std::span<const Tensor>();
}
std::span<const std::byte> Sample::field_bytes() const noexcept {
  return parts_ ? parts_->fields : std::span<const std::byte>();
}

const Tensor& Sample::tensor() const {
  const OneOrMany<Tensor>& tensors = parts().tensors;
  if (tensors.size() != 1)
    throw Error(Code::kInvalidArgument,
                "this sample has " + std::to_string(tensors.size()) + " tensors: use tensors()");
  return tensors.front();
}

const Tensor& Sample::tensor(std::string_view key) const {
  const std::uint32_t index = fields().at(key).as<TensorIndex>().index;
  if (index >= parts().tensors.size())
    throw Error(Code::kProtocol, "sample.fields: there is no tensor " + std::to_string(index));
  return parts().tensors[index];
}

Value Sample::fields() const {
  return platform::with_memory_errors(
      [&] { return parts().fields.empty() ? Value() : Value::decode(parts().fields); });
}

}  // namespace tensorbus::bus
