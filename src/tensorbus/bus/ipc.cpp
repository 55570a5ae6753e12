#include "tensorbus/bus/ipc.hpp"

#include <memory>
#include <string>

#include "tensorbus/bus/subscribe/sample_data.hpp"
#include "tensorbus/platform/limits.hpp"

namespace tensorbus::bus {
namespace {

void require_in_allocation(std::size_t offset, const Layout& layout,
                           const device::GpuRange& range) {
  if (offset % item_bytes(layout.dtype) != 0)
    throw Error(Code::kInvalidArgument,
                "offset " + std::to_string(offset) + ": it is in bytes, and a GPU reads " +
                    std::string(name_of(layout.dtype)) + " at multiples of its size alone");
  const ByteSpan span = span_of(layout);
  const auto bytes = static_cast<std::int64_t>(range.size());
  const auto from = static_cast<std::int64_t>(offset);
  if (offset <= range.size() && span.begin >= -from && span.end <= bytes - from) return;
  throw Error(Code::kInvalidArgument,
              "offset " + std::to_string(offset) + " with this shape and these strides needs the " +
                  "bytes from " + std::to_string(span.begin) + " to " + std::to_string(span.end) +
                  " around it, and the allocation has " + std::to_string(bytes));
}

}  // namespace

device::IpcName ipc_name_of(const void* data, std::size_t bytes) {
  return platform::with_memory_errors(
      [&] { return device::ipc_name_of(static_cast<const std::byte*>(data), bytes); });
}

Sample open_ipc(const std::array<std::byte, 64>& handle, std::size_t offset, const Layout& layout,
                Device device) {
  return platform::with_memory_errors([&] {
    (void)span_of(layout);  // before the handle is opened
    if (!device.is_cuda())
      throw Error(Code::kInvalidArgument, "a CUDA IPC handle is opened on a GPU");
    auto opened = std::make_shared<device::IpcMemory>(device::Gpu::at(device.ordinal), handle);
    require_in_allocation(offset, layout, opened->range());
    const std::byte* const first = opened->range().data() + offset;
    return SampleData::of_memory(std::move(opened), device, layout, first);
  });
}

}  // namespace tensorbus::bus
