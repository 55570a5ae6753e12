#include "tensorbus/device/probe.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>

#include "tensorbus/device/cuda/trials.hpp"
#include "tensorbus/device/foreign_memory.hpp"

namespace tensorbus::device {
namespace {

using cu::DeviceAttribute;

bool is_wsl() {
  std::ifstream file("/proc/version");
  std::string version{std::istreambuf_iterator<char>(file), {}};
  std::ranges::transform(version, version.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return version.find("microsoft") != std::string::npos;
}

DeviceFindings describe(const Gpu& device) {
  DeviceFindings found;
  found.ordinal = device.ordinal();
  found.name = device.name();
  found.uuid = text_of(device.uuid());
  found.capability_major = device.attribute(DeviceAttribute::kComputeCapabilityMajor);
  found.capability_minor = device.attribute(DeviceAttribute::kComputeCapabilityMinor);
  found.memory_bytes = device.total_bytes();
  found.integrated = device.attribute(DeviceAttribute::kIntegrated) != 0;
  found.mig = found.name.find("MIG") != std::string::npos;
  return found;
}

// Probes everything except the order of streams.
DeviceFindings probe_memory(const Gpu& device) {
  DeviceFindings found = describe(device);
  found.context = found_by([&] { const GpuScope scope(device); });
  if (!found.context.can()) {
    const ProbeResult none{"it has no context"};
    found.shared_memory = found.read_only_mapping = found.legacy_ipc = found.pool_ipc = none;
    found.order = found.stream_waits = none;
    return found;
  }
  found.shared_memory = found_by([&] { try_shared_memory(device); });
  found.read_only_mapping = found_by([&] { try_read_only_mapping(device); });
  found.legacy_ipc = found_by([&] { try_legacy_ipc(device); });
  found.pool_ipc = found_by([&] { try_pool_ipc(device); });
  return found;
}

// Queries the driver. Also maps memory if the reader has a context and the owner can share memory.
ProbeResult probe_peer(const DeviceFindings& reader, const DeviceFindings& owner) {
  return found_by([&] {
    const Gpu& reads = Gpu::at(reader.ordinal);
    const Gpu& owns = Gpu::at(owner.ordinal);
    ask_for_peer_access(reads, owns);
    if (reader.context.can() && owner.shared_memory.can()) try_peer_access(reads, owns);
  });
}

std::vector<PeerFinding> probe_peers(const std::vector<DeviceFindings>& devices) {
  std::vector<PeerFinding> peers;
  for (const DeviceFindings& reader : devices)
    for (const DeviceFindings& owner : devices)
      if (reader.ordinal != owner.ordinal)
        peers.push_back({reader.ordinal, owner.ordinal, probe_peer(reader, owner)});
  return peers;
}

// Returns the usual reason for failures on this kind of machine; empty if none is known.
std::string usual_reason(const DeviceFindings& device, bool wsl) {
  if (wsl) return "This is WSL2, whose driver lacks parts of memory sharing between processes";
  if (device.integrated)
    return "This GPU is integrated (Tegra): it lacks parts of memory sharing between processes";
  if (device.mig)
    return "This is a MIG instance: it lacks parts of memory sharing between processes";
  return {};
}

void explain(DeviceFindings& device, const std::string& reason) {
  if (reason.empty() || !device.context.can()) return;
  for (ProbeResult* finding : {&device.shared_memory, &device.read_only_mapping, &device.order,
                               &device.stream_waits, &device.legacy_ipc, &device.pool_ipc})
    if (!finding->can()) finding->why_not += ". " + reason;
}

void probe_order(DeviceFindings& found, std::chrono::nanoseconds patience) {
  const Gpu& device = Gpu::at(found.ordinal);
  const auto by = [&](OrderBy order) {
    return found_by([&] { try_order(device, patience, order); });
  };
  found.stream_waits = by(OrderBy::kStreams);
  found.order = found.stream_waits.can() ? found.stream_waits : by(OrderBy::kHost);
}

}  // namespace

int cuda_device_of(const void* address) {
  return ForeignMemory::ordinal_of(static_cast<const std::byte*>(address));
}

CudaFindings probe_cuda(std::chrono::nanoseconds patience) {
  CudaFindings found;
  found.wsl = is_wsl();
  found.driver = found_by([&] {
    found.driver_version = CudaDriver::get().version();
    for (const Gpu* device : Gpu::all()) found.devices.push_back(probe_memory(*device));
  });
  found.peers = probe_peers(found.devices);
  // Last: a stream that does not continue would block every thread that frees memory.
  for (DeviceFindings& device : found.devices) {
    if (device.context.can()) probe_order(device, patience);
    explain(device, usual_reason(device, found.wsl));
  }
  return found;
}

}  // namespace tensorbus::device
