#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensorbus/tensor/mcap/chunk.hpp"
#include "tensorbus/tensor/mcap/message_record.hpp"

namespace tensorbus::tensor::mcap {

// Collects copies of messages for a compressed chunk. Used by one thread.
class ChunkBuilder {
 public:
  explicit ChunkBuilder(Compression how) : how_(how) {}

  bool empty() const noexcept { return entries_.empty(); }
  std::size_t bytes() const noexcept { return records_.size(); }
  // Returns the time at which the first message was added.
  std::chrono::steady_clock::time_point begun() const noexcept { return begun_; }
  // If it throws, nothing is added.
  void add(const OutgoingMessage& message);
  // Appends the chunk, at byte `at` of the file, and its message indexes; appends the messages'
  // entries to `entries`. The builder is then empty. Throws as compress() does.
  ChunkPlace finish(std::uint64_t at, std::vector<std::byte>& bytes,
                    std::vector<MessageEntry>& entries);

 private:
  const Compression how_;
  std::vector<std::byte> records_;
  std::vector<MessageEntry> entries_;  // their chunk is not written yet
  std::chrono::steady_clock::time_point begun_{};
};

// Returns the times of messages, and their offsets from `begin`.
MessageTimes times_of(std::span<const MessageEntry> entries, std::uint64_t begin);
// Returns the head of a chunk with these messages, without sizes.
ChunkHead head_of(std::span<const MessageEntry> entries, Compression how);

}  // namespace tensorbus::tensor::mcap
