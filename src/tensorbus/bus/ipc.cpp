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
                "offset " + std::to_string(offset) + ": expected a multiple of " +
                    std::to_string(item_bytes(layout.dtype)) + " bytes, the size of a " +
                    std::string(name_of(layout.dtype)));
  const ByteSpan span = span_of(layout);
  const auto bytes = static_cast<std::int64_t>(range.size());
  const auto from = static_cast<std::int64_t>(offset);
  if (offset <= range.size() && span.begin >= -from && span.end <= bytes - from) return;
  throw Error(Code::kInvalidArgument,
              "offset " + std::to_string(offset) + ": this shape and these strides need the " +
                  "bytes from " + std::to_string(span.begin) + " to " + std::to_string(span.end) +
                  " relative to it, but the allocation has " + std::to_string(bytes) + " bytes");
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
      throw Error(Code::kInvalidArgument, "device: expected a GPU to open the CUDA IPC handle on");
    auto opened = std::make_shared<device::IpcMemory>(device::Gpu::at(device.ordinal), handle);
    require_in_allocation(offset, layout, opened->range());
    const std::byte* const first = opened->range().data() + offset;
    return SampleData::of_memory(std::move(opened), device, layout, first);
  });
}

}  // namespace tensorbus::bus
