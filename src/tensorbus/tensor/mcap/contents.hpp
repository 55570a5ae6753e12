#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tensorbus/tensor/mcap/mcap.hpp"

namespace tensorbus::tensor::mcap {

// The contents of a recording except the messages themselves.

inline constexpr std::string_view kEncoding = "tensorbus";  // of messages and of schemas
inline constexpr std::string_view kIndexName = "tensorbus.index";
inline constexpr std::string_view kIndexType = "application/x-tensorbus-index";
inline constexpr std::string_view kAboutName = "tensorbus.recording";
inline constexpr std::string_view kLostName = "tensorbus.lost";

// A message type.
struct Schema {
  std::uint16_t id = 0;
  std::string name;
  std::string encoding;
  std::string definition;
};

// The samples of one publisher.
struct Channel {
  std::uint16_t id = 0;
  std::uint16_t schema = 0;  // 0: none
  std::string topic;
  std::string encoding;
  TextMap metadata;
};

// The place of a message; or, in an index, a range of messages that are not in the file.
struct MessageEntry {
  static constexpr std::uint16_t kInFile = 0;
  static constexpr std::uint16_t kLost = 1;
  static constexpr std::uint16_t kPacked = 2;  // in a compressed chunk

  std::uint64_t offset = 0;  // in the file, of its record or its chunk; or the first lost sequence
  std::uint64_t bytes = 0;   // of the record's content; or the number of lost messages
  std::uint64_t log_time = 0;
  std::uint16_t channel = 0;
  std::uint16_t kind = kInFile;
  std::uint32_t in_chunk = 0;  // if packed: its offset in the chunk's records

  bool is_lost() const noexcept { return kind == kLost; }
  bool is_packed() const noexcept { return kind == kPacked; }
};
static_assert(sizeof(MessageEntry) == 32);  // written to files as it is

// A record that the summary refers to.
struct RecordPlace {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // with its opcode and length
};

// Messages that a publisher sent and that are not in the file.
struct Lost {
  std::uint16_t channel = 0;
  std::uint64_t first = 0;  // a sequence
  std::uint64_t count = 0;
  std::uint64_t log_time = 0;  // of the next message in the file, or of the last one
  std::string why{};           // reason for the last message; empty: no room, or unknown
};

struct Contents {
  TextMap about{};  // metadata of the recorder
  std::map<std::uint16_t, Schema> schemas{};
  std::map<std::uint16_t, Channel> channels{};
  std::vector<MessageEntry> messages{};  // in the order of their times
  std::vector<Lost> lost{};
  // The reason why the file was searched for messages; empty: its end was valid.
  std::string recovered{};
  // The first damage that was found, and its position; empty: everything was read.
  std::string damage{};
};

}  // namespace tensorbus::tensor::mcap
