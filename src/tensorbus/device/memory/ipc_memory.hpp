#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "tensorbus/device/memory/device_imports.hpp"
#include "tensorbus/device/memory/device_keeper.hpp"
#include "tensorbus/platform/fork_guard.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::device {

// Memory of cudaMalloc exchanged with programs that do not use the bus, by the 64 bytes of a
// cudaIpcMemHandle_t (docs/tasks/cuda_ipc.md).

// The name by which another program finds bytes.
struct IpcName {
  std::array<std::byte, 64> handle{};  // of the whole allocation
  std::size_t offset = 0;              // of the bytes in it
  std::size_t allocation_bytes = 0;
  int device = 0;
};

// Throws Error(kInvalidArgument) for bytes that are not in one allocation of a device;
// Error(kUnsupported) with the reason for memory that has no handle.
IpcName ipc_name_of(const std::byte* first, std::size_t bytes);

// An allocation of another program, opened in this process. It is closed when the last object for
// it is gone and the streams that use it have finished. Thread-safe.
class IpcMemory final : public DeviceKeeper {
 public:
  // Throws Error(kInvalidArgument) for memory of this process or of another device, Error(kClosed)
  // if the memory is gone, Error(kUnsupported), Error(kOutOfMemory).
  IpcMemory(const Gpu& device, const std::array<std::byte, 64>& handle);
  ~IpcMemory();
  IpcMemory(const IpcMemory&) = delete;
  IpcMemory& operator=(const IpcMemory&) = delete;

  const GpuRange& range() const noexcept { return *range_; }
  // The writer is unknown, so the stream does not wait.
  void use_on(const GpuStream& stream) override;
  void use_on(const OurStream& stream) override { use_on(stream->get()); }
  bool intact() const noexcept override { return true; }
  Intact intact_later() const override { return {}; }

 private:
  const std::uint32_t fork_generation_ = platform::fork_generation();
  DeviceImports::Range range_;
  platform::Mutex mutex_;
  std::vector<GpuStream> streams_ TB_GUARDED_BY(mutex_);  // that use it
};

}  // namespace tensorbus::device
