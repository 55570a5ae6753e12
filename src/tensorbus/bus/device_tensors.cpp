#include "tensorbus/bus/device_tensors.hpp"

#include <string>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {

// A stream that was given is that of the first tensor's device; what is written on others, it has
// been made to wait for by whoever gave it.
void DeviceTensors::add(const Device& device) {
  const auto& cuda = platform::CudaDevice::at(device.ordinal);
  if (!writer_) {
    writer_.emplace(cuda, static_cast<platform::cu::Stream>(stream_));
    writer_->require_not_capturing("Publishing CUDA memory");
  } else if (stream_ == nullptr && &writer_->device() != &cuda) {
    writer_->join(platform::CudaStream(cuda));
  }
}

memory::BlockRef DeviceTensors::copy(const TensorView& view, const ByteSpan& span,
                                     const Allocate& allocate) {
  if (!holes_are_cheap(span.bytes(), view.layout.packed_bytes()))
    throw Error(Code::kUnsupported,
                "a tensor on a GPU whose " + std::to_string(view.layout.packed_bytes()) +
                    " bytes are spread over " + std::to_string(span.bytes()) +
                    ", in memory that cannot be shared: publish a contiguous one");
  add(view.device);
  memory::BlockRef block = allocate(view.device, span.bytes());
  const platform::CudaDriver& cuda = platform::CudaDriver::get();
  const platform::CudaScope scope(platform::CudaDevice::at(view.device.ordinal));
  const auto address = [](const std::byte* byte) {
    return static_cast<platform::cu::DevicePtr>(reinterpret_cast<std::uintptr_t>(byte));
  };
  cuda.check(cuda.MemcpyAsync(address(block->data()),
                              address(static_cast<const std::byte*>(view.data) + span.begin),
                              span.bytes(), writer_->handle()),
             "cuMemcpyAsync of " + std::to_string(span.bytes()) + " bytes");
  return block;
}

void DeviceTensors::mark(memory::WriteMarks& marks, const Few<memory::BlockRef>& blocks) const {
  if (writer_) marks.written_by(*writer_, blocks.span());
}

}  // namespace tensorbus::bus
