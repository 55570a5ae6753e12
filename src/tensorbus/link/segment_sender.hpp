#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "tensorbus/link/channel.hpp"
#include "tensorbus/memory/arena.hpp"

namespace tensorbus::link {

// Passes the owner's segments to one borrower, before the first entry that refers to one is pushed,
// and each once; once more to be written, if a link may do that. Thread-safe.
class SegmentSender {
 public:
  SegmentSender(std::shared_ptr<Channel> channel, std::shared_ptr<memory::Arena> arena);

  // Throws Error(kOutOfMemory) when there is no descriptor left to pass it by, Error(kSystem) when
  // the borrower has not read what it was passed before.
  void ensure_sent(std::uint32_t segment, memory::Grant grant);
  void retire(std::uint32_t segment);

 private:
  void send_segment(std::uint32_t segment, memory::Grant grant);
  void send_file(std::uint32_t segment, memory::Grant grant);

  std::shared_ptr<Channel> channel_;
  std::shared_ptr<memory::Arena> arena_;
  std::mutex mutex_;
  std::set<std::pair<std::uint32_t, memory::Grant>> sent_;
};

}  // namespace tensorbus::link
