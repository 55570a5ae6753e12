#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tensorbus/tensor/mcap/compression.hpp"
#include "tensorbus/tensor/mcap/message_head.hpp"

namespace tensorbus::tensor::mcap {

struct OutgoingMessage {
  std::uint16_t channel = 0;
  std::uint64_t log_time = 0;      // nanoseconds since 1970
  std::uint64_t publish_time = 0;  // likewise
  Compression compression = Compression::kNone;
  MessageHead head{};  // offsets are from the beginning of the tensor's run
  std::vector<std::span<const std::byte>> runs{};  // ranges of bytes that contain the tensors
  std::vector<std::size_t> run_of{};               // the run of each tensor
};

// The layout of a message's record in a file, or in the records of a chunk.
struct MessageRecord {
  MessageHead head{};                   // offsets are from the beginning of the data
  std::vector<std::uint64_t> begins{};  // offsets of the runs, also from there
  std::uint64_t data_bytes = 0;
};

// Places the runs so that they are aligned if the record begins at byte `at`.
MessageRecord lay_out(const OutgoingMessage& message, std::uint64_t at);
// Appends the record up to the fields.
void encode_start(const OutgoingMessage& message, const MessageRecord& record,
                  std::vector<std::byte>& bytes);

// Calls `put` with all pieces that follow the bytes of encode_start(): fields, zeros, runs.
inline constexpr std::size_t kMaxZeros = 4096;
std::span<const std::byte> zeros(std::size_t count);
template <typename Put>
void for_each_piece(const OutgoingMessage& message, const MessageRecord& record, Put put) {
  put(record.head.fields);
  std::uint64_t at = head_bytes(record.head);
  for (std::size_t i = 0; i < message.runs.size(); ++i) {
    put(zeros(record.begins[i] - at));
    put(message.runs[i]);
    at = record.begins[i] + message.runs[i].size();
  }
}

}  // namespace tensorbus::tensor::mcap
