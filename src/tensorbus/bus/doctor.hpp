#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tensorbus/memory/cuda_probe.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/finding.hpp"

namespace tensorbus {

// What this machine can do for processes that share host memory, tried with real calls; for GPUs
// see probe_cuda().
struct HostFindings {
  std::string kernel;  // "6.1.0-13-amd64"
  Finding kernel_version;
  Finding pidfd;          // the death of another process is seen at once
  Finding shared_memory;  // sealed memfds, which a borrower can only read
  std::string domain_path;
  Finding domain;  // its directory: sockets are made and reached there

  std::size_t memory_bytes = 0;               // that this process may still take
  std::string memory_limit;                   // what bounds them
  std::optional<std::uint64_t> open_files;    // RLIMIT_NOFILE; empty: unlimited
  std::optional<std::uint64_t> locked_bytes;  // RLIMIT_MEMLOCK, of which Tensorbus needs none

  // Are its tensors by reference in other processes?
  bool can_share() const noexcept {
    return kernel_version.can() && pidfd.can() && shared_memory.can() && domain.can();
  }
};

// The domain is one as Participant takes it; its directory is made if need be, and stays. Throws no
// Error.
TENSORBUS_API HostFindings probe_host(const std::string& domain = {});

}  // namespace tensorbus
