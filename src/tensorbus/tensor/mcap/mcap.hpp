#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/utf8.hpp"

namespace tensorbus::tensor::mcap {

// The records of MCAP (https://mcap.dev/spec) that recordings use: an opcode, the length of the
// content (u64), the content. Numbers are little-endian.

static_assert(std::endian::native == std::endian::little);

inline constexpr std::string_view kMagic = "\x89MCAP0\r\n";  // at both ends of a file
inline constexpr std::size_t kRecordHead = 9;                // opcode and length

enum class Opcode : std::uint8_t {
  kHeader = 1,
  kFooter = 2,
  kSchema = 3,
  kChannel = 4,
  kMessage = 5,
  kChunk = 6,
  kMessageIndex = 7,
  kChunkIndex = 8,
  kAttachment = 9,
  kAttachmentIndex = 10,
  kStatistics = 11,
  kMetadata = 12,
  kMetadataIndex = 13,
  kSummaryOffset = 14,
  kDataEnd = 15,
};

// MCAP reserves the opcodes above those that it defines for later versions and, from 0x80 on, for
// applications. Readers ignore these records, and bytes after the fields of a known record.
inline constexpr bool is_unknown(Opcode opcode) noexcept { return opcode > Opcode::kDataEnd; }

// Limit for records that are read whole. Records that a recorder writes are far smaller.
inline constexpr std::uint64_t kMaxSmallBytes = std::uint64_t{64} << 20;
inline constexpr std::size_t kMessageHead = 22;  // bytes before a message's data
inline constexpr std::size_t kFooterBytes = 20;
// The end of a file: the footer's record and the magic.
inline constexpr std::size_t kEndBytes = kRecordHead + kFooterBytes + kMagic.size();

using TextMap = std::map<std::string, std::string>;

// Throws Error(kInvalidArgument) for an invalid file or part of one.
[[noreturn]] inline void refuse_record(const std::string& why) {
  throw Error(Code::kInvalidArgument, why);
}

class RecordWriter {
 public:
  explicit RecordWriter(std::vector<std::byte>& bytes) : bytes_(bytes) {}

  void begin(Opcode opcode) {
    number(static_cast<std::uint8_t>(opcode));
    length_at_ = bytes_.size();
    number(std::uint64_t{0});
  }
  // Completes the record. `more`: bytes of its content that are written elsewhere.
  void end(std::uint64_t more = 0) {
    const std::uint64_t length = bytes_.size() - length_at_ - sizeof length + more;
    std::memcpy(bytes_.data() + length_at_, &length, sizeof length);
  }

  template <std::unsigned_integral T>
  void number(T value) {
    raw(std::as_bytes(std::span(&value, 1)));
  }
  void raw(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void raw(std::string_view text) { raw(std::as_bytes(std::span(text))); }
  // Names of topics and nodes may have any bytes; texts of MCAP are UTF-8.
  void text(std::string_view text) {
    if (!platform::is_utf8(text)) return this->text(platform::to_utf8(text));
    number(static_cast<std::uint32_t>(text.size()));
    raw(text);
  }
  void map(const TextMap& map) {
    const std::size_t size_at = bytes_.size();
    number(std::uint32_t{0});
    for (const auto& [key, value] : map) {
      text(key);
      text(value);
    }
    const auto size = static_cast<std::uint32_t>(bytes_.size() - size_at - sizeof(std::uint32_t));
    std::memcpy(bytes_.data() + size_at, &size, sizeof size);
  }
  void map(const std::map<std::uint16_t, std::uint64_t>& of_channels) {
    constexpr std::size_t kEach = sizeof(std::uint16_t) + sizeof(std::uint64_t);
    number(static_cast<std::uint32_t>(of_channels.size() * kEach));
    for (const auto& [channel, value] : of_channels) {
      number(channel);
      number(value);
    }
  }

 private:
  std::vector<std::byte>& bytes_;
  std::size_t length_at_ = 0;
};

// Reads the untrusted content of a record. Throws Error(kInvalidArgument) if it ends early.
class RecordCursor {
 public:
  explicit RecordCursor(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::size_t left() const noexcept { return rest_.size(); }
  std::span<const std::byte> take(std::uint64_t count) {
    if (count > rest_.size())
      refuse_record(std::to_string(count) + " bytes are needed where " +
                    std::to_string(rest_.size()) + " are left");
    const auto part = rest_.first(count);
    rest_ = rest_.subspan(count);
    return part;
  }
  template <std::unsigned_integral T>
  T number() {
    T value{};
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() {
    const auto bytes = take(number<std::uint32_t>());
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!platform::is_utf8(text)) refuse_record("it has a text that is not UTF-8");
    return text;
  }
  TextMap map() {
    RecordCursor inside(take(number<std::uint32_t>()));
    TextMap map;
    while (inside.left() > 0) {
      std::string key = inside.text();
      map[std::move(key)] = inside.text();
    }
    return map;
  }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace tensorbus::tensor::mcap
