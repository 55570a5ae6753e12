#include "tensorbus/bus/device_tensors.hpp"

#include <string>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {

platform::CudaStream DeviceTensors::stream_of(const TensorView& view) {
  return platform::CudaStream(platform::CudaDevice::at(view.device.ordinal),
                              static_cast<platform::cu::Stream>(view.stream));
}

void DeviceTensors::add(const TensorView& view) {
  const platform::CudaStream stream = stream_of(view);
  loans_ = true;
  if (writer_ == stream) return;
  stream.require_usable(kPublishing);
  join(stream);
}

void DeviceTensors::join(const platform::CudaStream& stream) {
  if (writer_ == stream) return;
  if (writer_)
    writer_->join(stream);
  else
    writer_ = stream;
}

memory::BlockRef DeviceTensors::copy(const TensorView& view, const ByteSpan& span,
                                     const Allocate& allocate, memory::WriteMarks& marks) {
  if (!holes_are_cheap(span.bytes(), view.layout.packed_bytes()))
    throw Error(Code::kUnsupported,
                "a tensor on a GPU whose " + std::to_string(view.layout.packed_bytes()) +
                    " bytes are spread over " + std::to_string(span.bytes()) +
                    ", in memory that cannot be shared: publish a contiguous one");
  const platform::CudaStream stream = stream_of(view);
  stream.require_usable(kPublishing);
  memory::BlockRef block = allocate(view.device, span.bytes());
  const platform::CudaDriver& cuda = platform::CudaDriver::get();
  const platform::CudaScope scope(stream.device());
  const auto address = [](const std::byte* byte) {
    return static_cast<platform::cu::DevicePtr>(reinterpret_cast<std::uintptr_t>(byte));
  };
  cuda.check(cuda.MemcpyAsync(address(block->data()),
                              address(static_cast<const std::byte*>(view.data) + span.begin),
                              span.bytes(), stream.handle()),
             "cuMemcpyAsync of " + std::to_string(span.bytes()) + " bytes");
  try {
    marks.written_by(stream, {&block, 1});
  } catch (const Error&) {
    stream.synchronize();
    throw;
  }
  join(stream);
  return block;
}

void DeviceTensors::mark(memory::WriteMarks& marks, const Few<memory::BlockRef>& blocks) const {
  if (loans_) marks.written_by(*writer_, blocks.span());
}

}  // namespace tensorbus::bus
