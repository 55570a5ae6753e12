#include "tensorbus/bus/copy/device_tensors.hpp"

#include <algorithm>

namespace tensorbus::bus {

device::GpuStream DeviceTensors::stream_of(const TensorView& view) {
  return device::GpuStream(device::Gpu::at(view.device.ordinal), view.stream);
}

void DeviceTensors::add(const TensorView& view) {
  const device::GpuStream stream = stream_of(view);
  loans_ = true;
  if (writer_ == stream) return;
  stream.require_usable(kPublishing);
  join(stream);
}

void DeviceTensors::join(const device::GpuStream& stream) {
  if (writer_ == stream) return;
  if (writer_)
    writer_->join(stream);
  else
    writer_ = stream;
}

void DeviceTensors::add_copy(std::size_t tensor, const TensorView& view, const ByteSpan& span) {
  const device::GpuStream stream = stream_of(view);
  stream.require_usable(kPublishing);
  Copies& copies = copies_[view.device.ordinal];
  const auto* const first = static_cast<const std::byte*>(view.data) + span.begin;
  copies.plan.add(first, span.bytes(), view.layout.packed_bytes());
  copies.tensors.emplace_back(tensor, first);
  if (std::find(copies.streams.begin(), copies.streams.end(), stream) == copies.streams.end())
    copies.streams.push_back(stream);
}

std::size_t DeviceTensors::copy(const Allocate& allocate, device::WriteMarks& marks,
                                const Placed& placed) {
  std::size_t copied = 0;
  for (auto& [ordinal, copies] : copies_) {
    const std::size_t bytes = copies.plan.lay_out();
    copies.plan.require_dense();
    const memory::BlockRef block = allocate(Device::cuda(ordinal), bytes);
    fill(copies, block, marks);
    join(copies.streams.front());
    for (const auto& [tensor, first] : copies.tensors)
      placed(tensor, block, copies.plan.place_of(first));
    copied += copies.plan.bytes();
  }
  return copied;
}

// The first stream makes the copies, after it has waited for the other streams.
void DeviceTensors::fill(const Copies& copies, const memory::BlockRef& block,
                         device::WriteMarks& marks) {
  const device::GpuStream& stream = copies.streams.front();
  for (std::size_t i = 1; i < copies.streams.size(); ++i) stream.join(copies.streams[i]);
  try {
    copies.plan.copy_on(stream, block->data());
    marks.written_by(stream, {&block, 1});
  } catch (...) {
    stream.synchronize();  // it may still write to the block
    throw;
  }
}

void DeviceTensors::mark(device::WriteMarks& marks,
                         const OneOrMany<memory::BlockRef>& blocks) const {
  if (loans_) marks.written_by(*writer_, blocks.span());
}

}  // namespace tensorbus::bus
