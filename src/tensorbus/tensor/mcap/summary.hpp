#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tensorbus/tensor/mcap/chunk.hpp"
#include "tensorbus/tensor/mcap/contents.hpp"

namespace tensorbus::tensor::mcap {

// An index of some thousand messages: an attachment that follows them.
struct IndexPlace {
  RecordPlace record;
  std::uint64_t log_time = 0;
  std::uint64_t data_bytes = 0;
};

// Returns the place of the index if it is written at byte `at` of the file.
IndexPlace encode_index(std::span<const MessageEntry> entries, std::uint64_t at,
                        std::vector<std::byte>& bytes);
// All messages lie before byte `end`. Throws Error(kInvalidArgument) that names the fault.
std::vector<MessageEntry> decode_index(std::span<const std::byte> record, std::uint64_t end);

// Records that are both in the data section and in the summary.
void encode(const Schema& schema, std::vector<std::byte>& bytes);
void encode(const Channel& channel, std::vector<std::byte>& bytes);
Schema decode_schema(std::span<const std::byte> content);
Channel decode_channel(std::span<const std::byte> content);

struct Summary {
  std::vector<Schema> schemas{};
  std::vector<Channel> channels{};
  std::map<std::uint16_t, std::uint64_t> messages{};  // number in each channel
  std::uint64_t first_time = 0;                       // of a message
  std::uint64_t last_time = 0;
  std::vector<IndexPlace> indexes{};
  std::vector<ChunkPlace> chunks{};
  RecordPlace about{};                 // the metadata about the recorder
  std::vector<RecordPlace> reasons{};  // metadata about lost messages with a reason, the first ones
  std::uint32_t metadata_count = 0;    // includes all metadata about lost messages
};
// Appends the summary, which begins at byte `begin` of the file, and the end of the file.
void encode_summary(const Summary& summary, std::uint64_t begin, std::vector<std::byte>& bytes);

}  // namespace tensorbus::tensor::mcap
