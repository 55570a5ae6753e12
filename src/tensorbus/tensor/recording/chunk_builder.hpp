#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensorbus/tensor/recording/chunk.hpp"
#include "tensorbus/tensor/recording/message_record.hpp"

namespace tensorbus::recording {

// Messages that will be a compressed chunk. They are copied. For one thread.
class ChunkBuilder {
 public:
  explicit ChunkBuilder(Compression how) : how_(how) {}

  bool empty() const noexcept { return entries_.empty(); }
  std::size_t bytes() const noexcept { return records_.size(); }
  // When the first message was added.
  std::chrono::steady_clock::time_point begun() const noexcept { return begun_; }
  // If it throws, nothing was added.
  void add(const OutgoingMessage& message);
  // Appends the chunk, and the indexes behind it, which are written at byte `at` of the file.
  // `entries`: is given those of the messages. It is empty afterwards. Throws as compress().
  ChunkPlace finish(std::uint64_t at, std::vector<std::byte>& bytes,
                    std::vector<MessageEntry>& entries);

 private:
  const Compression how_;
  std::vector<std::byte> records_;
  std::vector<MessageEntry> entries_;  // whose chunk is nowhere yet
  std::chrono::steady_clock::time_point begun_{};
};

// Times and places of messages, which lie behind `begin`.
MessageTimes times_of(std::span<const MessageEntry> entries, std::uint64_t begin);
// The head of a chunk with these messages, without sizes.
ChunkHead head_of(std::span<const MessageEntry> entries, Compression how);

}  // namespace tensorbus::recording
