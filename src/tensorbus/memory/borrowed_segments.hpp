#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/mapping.hpp"

namespace tensorbus::memory {

// One owner's segments as a borrower sees them: mapped read-only. A lease keeps the mappings it
// refers to, so its bytes stay readable when the owner retires the segment or dies. Thread-safe.
class BorrowedSegments {
 public:
  using Ref = std::shared_ptr<const platform::Mapping>;

  // Maps what the owner sent. Throws Error(kProtocol) for anything but a fresh sealed memfd.
  void add(std::uint32_t id, platform::Fd fd, std::size_t bytes);
  void retire(std::uint32_t id);
  // Empty if the owner's message has not come yet.
  Ref find(std::uint32_t id) const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint32_t, Ref> mappings_;
};

}  // namespace tensorbus::memory
