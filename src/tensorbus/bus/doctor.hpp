#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensorbus/device/probe.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/probe_result.hpp"

namespace tensorbus::bus {

// The abilities of this machine to share host memory between processes, probed with real calls. For
// GPUs see device/probe.hpp.
struct HostFindings {
  std::string kernel;  // "6.1.0-13-amd64"
  ProbeResult kernel_version;
  ProbeResult pidfd;          // detects the end of another process at once
  ProbeResult shared_memory;  // sealed memfds, which a borrower can only read
  ProbeResult huge_pages;     // shared memory can use them, which is faster; not required
  std::string domain_path;
  ProbeResult domain;  // sockets work in its directory, or the directory can be made
  bool domain_exists = false;
  std::vector<std::string> other_domains;  // of this user, with living processes

  std::size_t memory_bytes = 0;               // memory that this process may still take
  std::string memory_limit;                   // the limit that bounds memory_bytes
  std::optional<std::uint64_t> open_files;    // RLIMIT_NOFILE; empty: unlimited
  std::optional<std::uint64_t> locked_bytes;  // RLIMIT_MEMLOCK; Tensorbus needs none

  // Returns true if other processes can get tensors by reference.
  bool can_share() const noexcept {
    return kernel_version.can() && pidfd.can() && shared_memory.can() && domain.can();
  }
};

// Probes this machine. `domain` is as for Participant; its directory is not made. Throws no Error.
[[gnu::cold]] TENSORBUS_API HostFindings probe_host(const std::string& domain = {});

}  // namespace tensorbus::bus
