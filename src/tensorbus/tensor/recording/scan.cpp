#include "tensorbus/tensor/recording/scan.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "tensorbus/tensor/recording/file_window.hpp"
#include "tensorbus/tensor/recording/summary.hpp"

namespace tensorbus::recording {
namespace {

constexpr std::uint64_t kMostSmallBytes = std::uint64_t{64}
                                          << 20;  // of a record that is read whole

struct Record {
  std::uint64_t at = 0;
  std::uint8_t opcode = 0;
  std::uint64_t bytes = 0;  // of its content

  std::uint64_t content() const noexcept { return at + kRecordHead; }
  std::uint64_t end() const noexcept { return content() + bytes; }
  bool is(Opcode wanted) const noexcept { return opcode == static_cast<std::uint8_t>(wanted); }
};

std::string at_byte(std::uint64_t at) { return "byte " + std::to_string(at); }

class Scanner {
 public:
  explicit Scanner(const FileBytes& file)
      : window_(file), size_(file.size()), ended_(ends_with_magic()) {}

  Contents run() {
    std::uint64_t at = kMagic.size();
    while (!done_ && at < size_) {
      const std::optional<Record> record = next(at);
      if (!record) break;
      try {
        take(*record);
      } catch (const Error& error) {
        if (error.code() != Code::kInvalidArgument) throw;
        note_damage(*record, error.what());
      }
      at = record->end();
    }
    if (contents_.recovered.empty())
      contents_.recovered = "it has no index at its end: its recorder has not finished it";
    return std::move(contents_);
  }

 private:
  bool ends_with_magic() {
    if (size_ < 2 * kMagic.size()) return false;
    const auto end = window_.at(size_ - kMagic.size(), kMagic.size());
    return std::string_view(reinterpret_cast<const char*>(end.data()), end.size()) == kMagic;
  }

  // Returns nothing, and says why, if no whole record follows.
  std::optional<Record> next(std::uint64_t at) {
    const auto head = window_.at(at, kRecordHead);
    if (head.size() < kRecordHead) {
      end_here(at, "its last record is cut");
      return std::nullopt;
    }
    RecordCursor cursor(head);
    Record record{at, cursor.number<std::uint8_t>(), 0};
    record.bytes = cursor.number<std::uint64_t>();
    if (record.opcode == 0 && record.bytes == 0) {
      end_here(at, "there are zeros: the machine stopped before they were written");
      return std::nullopt;
    }
    if (record.bytes > size_ - record.content()) {
      end_here(at, "a record of " + std::to_string(record.bytes) + " bytes begins, of which " +
                       std::to_string(size_ - record.content()) + " are there");
      return std::nullopt;
    }
    return record;
  }

  // What a recorder that was killed leaves is no damage; in a file with an end it is.
  void end_here(std::uint64_t at, const std::string& why) {
    std::string text = "from " + at_byte(at) + " on " + why;
    if (ended_ && contents_.damage.empty()) contents_.damage = text;
    contents_.recovered = std::move(text);
  }

  void note_damage(const Record& record, const std::string& why) {
    if (contents_.damage.empty())
      contents_.damage = at_byte(record.at) + ": record of kind " + std::to_string(record.opcode) +
                         ", " + std::to_string(record.bytes) + " bytes: " + why;
  }

  std::span<const std::byte> content_of(const Record& record) {
    if (record.bytes > kMostSmallBytes)
      refuse_record("it is larger than any that a recorder writes");
    const auto content = window_.at(record.content(), record.bytes);
    if (content.size() != record.bytes) refuse_record("the file was cut meanwhile");
    return content;
  }

  void take(const Record& record) {
    if (record.is(Opcode::kMessage)) return take_message(record);
    if (record.is(Opcode::kChunk))
      throw Error(Code::kUnsupported, at_byte(record.at) +
                                          ": its messages lie in chunks, as other programs write "
                                          "them: Tensorbus reads files that it has written");
    if (record.is(Opcode::kSchema)) {
      Schema schema = decode_schema(content_of(record));
      contents_.schemas.emplace(schema.id, std::move(schema));
    } else if (record.is(Opcode::kChannel)) {
      Channel channel = decode_channel(content_of(record));
      contents_.channels.emplace(channel.id, std::move(channel));
    } else if (record.is(Opcode::kMetadata)) {
      note_metadata(content_of(record), contents_);
    } else if (record.is(Opcode::kHeader)) {
      take_header(record);
    } else if (record.is(Opcode::kAttachment)) {
      take_attachment(record);
    } else if (record.is(Opcode::kDataEnd) && record.bytes == 4) {
      done_ = true;
    } else {
      refuse_record("there is no record of this kind here");
    }
  }

  void take_message(const Record& record) {
    if (record.bytes < kMessageHead) refuse_record("it is shorter than any message");
    RecordCursor cursor(window_.at(record.content(), kMessageHead));
    const auto channel = cursor.number<std::uint16_t>();
    (void)cursor.number<std::uint32_t>();
    const auto log_time = cursor.number<std::uint64_t>();
    if (!contents_.channels.contains(channel))
      refuse_record("it is of channel " + std::to_string(channel) + ", which was not named");
    contents_.messages.push_back({record.at, record.bytes, log_time, channel});
  }

  void take_header(const Record& record) {
    RecordCursor cursor(content_of(record));
    (void)cursor.text();
    (void)cursor.text();
    if (record.at != kMagic.size()) refuse_record("a second header");
  }

  void take_attachment(const Record& record) {
    constexpr std::size_t kMostNames = 4096;
    RecordCursor cursor(
        window_.at(record.content(), std::min<std::uint64_t>(kMostNames, record.bytes)));
    const std::uint64_t whole = cursor.left();
    (void)cursor.take(2 * sizeof(std::uint64_t));
    (void)cursor.text();
    (void)cursor.text();
    const auto data = cursor.number<std::uint64_t>();
    const std::uint64_t before = whole - cursor.left() + sizeof(std::uint32_t);
    if (data > record.bytes || before != record.bytes - data)
      refuse_record("an attachment of another length");
  }

  FileWindow window_;
  const std::uint64_t size_;
  const bool ended_;  // as a recorder that has finished ends a file
  bool done_ = false;
  Contents contents_;
};

std::uint64_t number_in(const TextMap& map, const char* key) {
  const auto found = map.find(key);
  if (found == map.end()) refuse_record(std::string("it says nothing about '") + key + "'");
  const std::string& text = found->second;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    refuse_record(std::string("'") + key + "' is no number");
  return value;
}

}  // namespace

void note_metadata(std::span<const std::byte> content, Contents& contents) {
  RecordCursor cursor(content);
  const std::string name = cursor.text();
  TextMap map = cursor.map();
  if (name == kAboutName) {
    contents.about = std::move(map);
  } else if (name == kLostName) {
    const std::uint64_t channel = number_in(map, "channel");
    if (channel > UINT16_MAX || !contents.channels.contains(static_cast<std::uint16_t>(channel)))
      refuse_record("it is about a channel that was not named");
    contents.lost.push_back({static_cast<std::uint16_t>(channel), number_in(map, "first"),
                             number_in(map, "count"), number_in(map, "log_time")});
  }
}

Contents scan(const FileBytes& file) { return Scanner(file).run(); }

}  // namespace tensorbus::recording
