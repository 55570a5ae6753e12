#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tensorbus/tensor/recording/chunk.hpp"
#include "tensorbus/tensor/recording/contents.hpp"

namespace tensorbus::recording {

// An index of some thousand messages: an attachment that stands behind them.
struct IndexPlace {
  RecordPlace record;
  std::uint64_t log_time = 0;
  std::uint64_t data_bytes = 0;
};

// Returns where it is if it is written at byte `at` of the file.
IndexPlace encode_index(std::span<const MessageEntry> entries, std::uint64_t at,
                        std::vector<std::byte>& bytes);
// `end`: before which all messages lie. Throws Error(kInvalidArgument) that says what is wrong.
std::vector<MessageEntry> decode_index(std::span<const std::byte> record, std::uint64_t end);

// Records of the data section and of the summary alike.
void encode(const Schema& schema, std::vector<std::byte>& bytes);
void encode(const Channel& channel, std::vector<std::byte>& bytes);
Schema decode_schema(std::span<const std::byte> content);
Channel decode_channel(std::span<const std::byte> content);

// What the summary is about.
struct Summary {
  std::vector<Schema> schemas{};
  std::vector<Channel> channels{};
  std::map<std::uint16_t, std::uint64_t> messages{};  // how many each channel has
  std::uint64_t first_time = 0;                       // of a message
  std::uint64_t last_time = 0;
  std::vector<IndexPlace> indexes{};
  std::vector<ChunkPlace> chunks{};
  RecordPlace about{};                 // the metadata about the recorder
  std::vector<RecordPlace> reasons{};  // those about lost messages that say why; the first of them
  std::uint32_t metadata_count = 0;    // with all about lost messages
};
// Appends the summary, which begins at byte `begin` of the file, and the end of the file.
void encode_summary(const Summary& summary, std::uint64_t begin, std::vector<std::byte>& bytes);

}  // namespace tensorbus::recording
