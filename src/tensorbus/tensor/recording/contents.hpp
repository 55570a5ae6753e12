#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tensorbus/tensor/recording/mcap.hpp"

namespace tensorbus::recording {

// What is in a recording, beside the messages themselves.

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

// What one publisher published.
struct Channel {
  std::uint16_t id = 0;
  std::uint16_t schema = 0;  // 0: none
  std::string topic;
  std::string encoding;
  TextMap metadata;
};

// Where a message is; or, in an index, which messages are not in the file.
struct MessageEntry {
  static constexpr std::uint16_t kInFile = 0;
  static constexpr std::uint16_t kLost = 1;
  static constexpr std::uint16_t kPacked = 2;  // in a chunk that is compressed

  std::uint64_t offset =
      0;                    // of its record in the file, or of its chunk's; the first lost sequence
  std::uint64_t bytes = 0;  // of the record's content; of lost messages how many
  std::uint64_t log_time = 0;
  std::uint16_t channel = 0;
  std::uint16_t kind = kInFile;
  std::uint32_t in_chunk = 0;  // of a packed one: where its record begins, in the chunk's records

  bool is_lost() const noexcept { return kind == kLost; }
  bool is_packed() const noexcept { return kind == kPacked; }
};
static_assert(sizeof(MessageEntry) == 32);  // it is written as it is

// A record that an index of the summary names.
struct RecordPlace {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // with its head
};

// Messages that a publisher sent, and that are not in the file.
struct Lost {
  std::uint16_t channel = 0;
  std::uint64_t first = 0;  // sequence
  std::uint64_t count = 0;
  std::uint64_t log_time = 0;  // of the message behind them, or of the last one
  std::string why{};           // of the last of them; empty: for want of room, or not known
};

struct Contents {
  TextMap about{};  // of the recorder
  std::map<std::uint16_t, Schema> schemas{};
  std::map<std::uint16_t, Channel> channels{};
  std::vector<MessageEntry> messages{};  // in the order of their times
  std::vector<Lost> lost{};
  // Why the file had to be searched for its messages; empty: its end was right.
  std::string recovered{};
  // What could not be read, from where on; empty: all could.
  std::string damage{};
};

}  // namespace tensorbus::recording
