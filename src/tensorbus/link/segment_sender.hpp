#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "tensorbus/link/channel.hpp"
#include "tensorbus/memory/arena.hpp"

namespace tensorbus::link {

// Passes the owner's segments to one borrower, each once and before the first entry that refers to
// it is pushed. Thread-safe.
class SegmentSender {
 public:
  SegmentSender(std::shared_ptr<Channel> channel, std::shared_ptr<memory::Arena> arena);

  // Throws Error(kSystem) when there is no descriptor left to pass it by.
  void ensure_sent(std::uint32_t segment);
  void retire(std::uint32_t segment);

 private:
  std::shared_ptr<Channel> channel_;
  std::shared_ptr<memory::Arena> arena_;
  std::mutex mutex_;
  std::unordered_set<std::uint32_t> sent_;
};

}  // namespace tensorbus::link
