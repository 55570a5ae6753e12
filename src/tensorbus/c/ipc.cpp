#include "tensorbus/bus/ipc.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "tensorbus/c/guard.hpp"
#include "tensorbus/c/objects.hpp"
#include "tensorbus/c/structs.hpp"

using namespace tensorbus;
using namespace tensorbus::c;

tb_status tb_ipc_handle_of(const void* data, size_t bytes, tb_ipc_handle* handle) {
  return done([&] {
    (void)required(handle, "handle");
    (void)required(static_cast<const std::byte*>(data), "data");
    const device::IpcName name = bus::ipc_name_of(data, bytes);
    tb_ipc_handle made = TB_IPC_HANDLE_INIT;
    made.device = name.device;
    std::memcpy(made.bytes, name.handle.data(), name.handle.size());
    made.offset = name.offset;
    made.allocation_bytes = name.allocation_bytes;
    give(handle, made);
  });
}

tb_status tb_ipc_open(const tb_ipc_handle* handle, const tb_layout* layout, tb_sample** sample) {
  return done([&] {
    hand_out(sample, "sample", [&] {
      const tb_ipc_handle given = taken(required(handle, "handle"));
      std::array<std::byte, 64> bytes{};
      std::memcpy(bytes.data(), given.bytes, bytes.size());
      return sample_of(bus::open_ipc(bytes, given.offset, layout_of(required(layout, "layout")),
                                     device_of(given.device)));
    });
  });
}
