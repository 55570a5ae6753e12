#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/probe_result.hpp"

namespace tensorbus {

// Finds out what the GPUs of this process can do for Tensorbus. It tries rather than asks: it makes
// the calls that tensors need on their way. A reason names the call that failed.

// The facts about one GPU, and what it can do.
struct DeviceFindings {
  int ordinal = 0;
  std::string name;
  std::string uuid;
  int capability_major = 0;
  int capability_minor = 0;
  std::size_t memory_bytes = 0;
  bool integrated = false;  // it shares the host's memory (Tegra)
  bool mig = false;         // a part of a GPU

  ProbeResult context;
  ProbeResult shared_memory;      // memory is made, sent as a descriptor, imported and mapped
  ProbeResult read_only_mapping;  // a borrower's kernels cannot write there
  ProbeResult order;              // one stream's work comes after another's, by a timeline
  ProbeResult stream_waits;  // ... and streams wait for it themselves, not the receiving thread
  ProbeResult legacy_ipc;    // other allocators' tensors: memory of cuMemAlloc has a handle

  ProbeResult pool_ipc;  // the same for memory pools that were made for export

  // Returns true if its tensors are shared with other processes by reference.
  bool can_share() const noexcept { return context.can() && shared_memory.can() && order.can(); }
};

// Whether one GPU can access the memory of another.
struct PeerFinding {
  int reader = 0;  // ordinals
  int owner = 0;
  ProbeResult access;  // of the reader to memory of the owner
};

// What the driver and all GPUs can do.
struct CudaFindings {
  ProbeResult driver;      // if it cannot be used, the rest is empty
  int driver_version = 0;  // of CUDA: 12040 for 12.4
  bool wsl = false;        // Windows' driver, seen from Linux
  std::vector<DeviceFindings> devices;
  std::vector<PeerFinding> peers;  // each pair, in both directions
};

// Takes a primary context on each device and keeps it; everything else is given back. Waits at most
// `patience` for each device's streams; an unfinished stream is left as it is. Throws no Error.
[[gnu::cold]] TENSORBUS_API CudaFindings
probe_cuda(std::chrono::nanoseconds patience = std::chrono::seconds(2));

// Returns the ordinal of the GPU whose memory this is, -1 for any other address. Throws
// Error(kUnsupported) if there is no driver.
TENSORBUS_API int cuda_device_of(const void* address);

}  // namespace tensorbus
