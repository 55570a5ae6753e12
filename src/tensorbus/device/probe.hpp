#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/probe_result.hpp"

namespace tensorbus {

// What the GPUs that this process sees can do for Tensorbus. Nothing is looked up that can be
// tried: the same calls are made as when tensors travel, and a reason names the one that failed.

// What one GPU is, and can do.
struct DeviceFindings {
  int ordinal = 0;
  std::string name;
  std::string uuid;
  int capability_major = 0;
  int capability_minor = 0;
  std::size_t memory_bytes = 0;
  bool integrated = false;  // its memory is the host's (Tegra)
  bool mig = false;         // a part of a GPU

  ProbeResult context;
  ProbeResult shared_memory;      // made, handed over as a descriptor, imported and mapped
  ProbeResult read_only_mapping;  // a borrower's kernels cannot write there
  ProbeResult order;              // one stream's work comes after another's, by a timeline
  ProbeResult stream_waits;       // ... and the streams wait themselves, not whoever receives
  ProbeResult legacy_ipc;         // memory of cuMemAlloc has a handle: other allocators' tensors

  ProbeResult pool_ipc;  // the same of memory pools that were made to be exported

  // Are its tensors by reference in other processes?
  bool can_share() const noexcept { return context.can() && shared_memory.can() && order.can(); }
};

// Whether one GPU reaches the memory of another.
struct PeerFinding {
  int reader = 0;  // ordinals
  int owner = 0;
  ProbeResult access;  // of the reader to memory of the owner
};

// What the driver and all GPUs can do.
struct CudaFindings {
  ProbeResult driver;      // if it cannot be used, there is nothing below
  int driver_version = 0;  // of CUDA: 12040 for 12.4
  bool wsl = false;        // Windows' driver, seen from Linux
  std::vector<DeviceFindings> devices;
  std::vector<PeerFinding> peers;  // each pair, both ways round
};

// Takes a primary context on each device, which stays; all else is given back. For each device it
// waits at most `patience` for streams: one that does not go on is left as it is. Throws no Error.
TENSORBUS_API CudaFindings probe_cuda(std::chrono::nanoseconds patience = std::chrono::seconds(2));

// The ordinal of the GPU whose memory this is, -1 for any other address. Throws Error(kUnsupported)
// where there is no driver.
TENSORBUS_API int cuda_device_of(const void* address);

}  // namespace tensorbus
