#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/probe_result.hpp"

namespace tensorbus::device {

// Tests the capabilities of the GPUs of this process with the real calls that tensors need. A
// ProbeResult of a failure names the failed call.

// The properties and capabilities of one GPU.
struct DeviceFindings {
  int ordinal = 0;
  std::string name;
  std::string uuid;
  int capability_major = 0;
  int capability_minor = 0;
  std::size_t memory_bytes = 0;
  bool integrated = false;  // shares the memory of the CPU (Tegra)
  bool mig = false;         // a part of a GPU

  ProbeResult context;
  ProbeResult shared_memory;      // made, sent as a descriptor, imported and mapped
  ProbeResult read_only_mapping;  // a borrower's kernels cannot write to it
  ProbeResult order;              // a timeline orders the work of two streams
  ProbeResult stream_waits;       // the streams wait for it, not the receiving thread
  ProbeResult legacy_ipc;         // other allocators' tensors: memory of cuMemAlloc has a handle

  ProbeResult pool_ipc;  // ... in memory pools made for export

  // Returns true if its tensors are shared with other processes by reference.
  bool can_share() const noexcept { return context.can() && shared_memory.can() && order.can(); }
};

// Whether one GPU can access the memory of another.
struct PeerFinding {
  int reader = 0;  // ordinals
  int owner = 0;
  ProbeResult access;  // of the reader to the owner's memory
};

// The capabilities of the driver and of all GPUs.
struct CudaFindings {
  ProbeResult driver;      // if unusable, the rest is empty
  int driver_version = 0;  // of CUDA: 12040 for 12.4
  bool wsl = false;        // Windows' driver, used from Linux
  std::vector<DeviceFindings> devices;
  std::vector<PeerFinding> peers;  // each pair, in both directions
};

// Retains the primary context of each device, and releases everything else. Waits at most
// `patience` for the streams of each device; a stream that has not finished is not destroyed.
// Throws no Error.
[[gnu::cold]] TENSORBUS_API CudaFindings
probe_cuda(std::chrono::nanoseconds patience = std::chrono::seconds(2));

// Returns the ordinal of the GPU that has this memory, -1 for any other address. Throws
// Error(kUnsupported) without a driver.
TENSORBUS_API int cuda_device_of(const void* address);

}  // namespace tensorbus::device
