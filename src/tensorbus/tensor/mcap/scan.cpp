#include "tensorbus/tensor/mcap/scan.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "tensorbus/tensor/mcap/chunk.hpp"
#include "tensorbus/tensor/mcap/file_window.hpp"
#include "tensorbus/tensor/mcap/summary.hpp"

namespace tensorbus::tensor::mcap {
namespace {

struct Record {
  std::uint64_t at = 0;
  std::uint8_t opcode = 0;
  std::uint64_t bytes = 0;  // of its content

  std::uint64_t content() const noexcept { return at + kRecordHead; }
  std::uint64_t end() const noexcept { return content() + bytes; }
  bool is(Opcode wanted) const noexcept { return opcode == static_cast<std::uint8_t>(wanted); }
  bool is_unknown() const noexcept { return tensor::mcap::is_unknown(static_cast<Opcode>(opcode)); }
};

std::string at_byte(std::uint64_t at) { return "byte " + std::to_string(at); }

// Limits the memory for the records of compressed chunks: a few thousand bytes can unpack to
// millions of messages. Uncompressed records need at least as many bytes in the file.
class Budget {
 public:
  explicit Budget(std::uint64_t file_bytes)
      : most_(kAlways + kPerByte * std::min(file_bytes, kMaxCounted)), file_bytes_(file_bytes) {}

  void require(std::uint64_t bytes) {
    exceeded_ = bytes > most_ - used_;
    if (exceeded_)
      refuse_record("its chunks unpack to more than " + std::to_string(most_) +
                    " bytes of message places and texts, the limit for a file of " +
                    std::to_string(file_bytes_) + " bytes");
  }
  void take(std::uint64_t bytes) {
    require(bytes);
    used_ += bytes;
  }
  bool is_exceeded() const noexcept { return exceeded_; }

 private:
  static constexpr std::uint64_t kAlways = std::uint64_t{32} << 20;
  static constexpr std::uint64_t kPerByte = 16;  // enough for messages of two compressed bytes each
  static constexpr std::uint64_t kMaxCounted = std::uint64_t{1} << 56;

  const std::uint64_t most_;
  const std::uint64_t file_bytes_;
  std::uint64_t used_ = 0;
  bool exceeded_ = false;
};

// Memory of a schema or channel beside its texts, and of each byte in a map of short texts.
constexpr std::uint64_t kOfRecord = 256;
constexpr std::uint64_t kPerMapByte = 16;

class Scanner {
 public:
  explicit Scanner(const FileBytes& file)
      : window_(file), size_(file.size()), ended_(ends_with_magic()), packed_(size_) {}

  Contents run() {
    std::uint64_t at = kMagic.size();
    while (!done_ && !packed_.is_exceeded() && at < size_) {
      const std::optional<Record> record = next(at);
      if (!record) break;
      with_damage_noted(*record, [&] { take(*record); });
      at = record->end();
    }
    if (contents_.recovered.empty()) contents_.recovered = why_searched(at);
    return std::move(contents_);
  }

 private:
  bool ends_with_magic() {
    if (size_ < 2 * kMagic.size()) return false;
    const auto end = window_.at(size_ - kMagic.size(), kMagic.size());
    return std::string_view(reinterpret_cast<const char*>(end.data()), end.size()) == kMagic;
  }

  std::string why_searched(std::uint64_t end) const {
    if (packed_.is_exceeded()) return "it was searched up to " + at_byte(end);
    if (done_) return "all messages up to the end of its data, " + at_byte(end) + ", were searched";
    return "it has no index at its end: its recorder has not finished it";
  }

  template <typename Work>
  void with_damage_noted(const Record& record, Work work) {
    try {
      work();
    } catch (const Error& error) {
      if (error.code() != Code::kInvalidArgument) throw;
      note_damage(record, error.what());
    }
  }

  // If no whole record follows, records the reason and returns an empty result.
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
      end_here(at, "there are only zeros: the machine stopped before it wrote the data");
      return std::nullopt;
    }
    if (record.bytes > size_ - record.content()) {
      end_here(at, "a record of " + std::to_string(record.bytes) +
                       " bytes begins, but the file has only " +
                       std::to_string(size_ - record.content()) + " of them");
      return std::nullopt;
    }
    return record;
  }

  // A cut end is damage only in a finished file: a killed recorder also leaves a cut end.
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
    if (record.bytes > kMaxSmallBytes) refuse_record("it is larger than any record of a recorder");
    const auto content = window_.at(record.content(), record.bytes);
    if (content.size() != record.bytes) refuse_record("the file was cut meanwhile");
    return content;
  }

  void take(const Record& record) {
    if (record.is(Opcode::kMessage)) return take_message(record);
    if (record.is(Opcode::kChunk)) return take_chunk(record);
    if (record.is(Opcode::kMessageIndex)) return;  // it repeats data of the chunk before it
    if (record.is(Opcode::kSchema)) {
      take_schema(content_of(record));
    } else if (record.is(Opcode::kChannel)) {
      take_channel(content_of(record));
    } else if (record.is(Opcode::kMetadata)) {
      take_metadata(record);
    } else if (record.is(Opcode::kHeader)) {
      take_header(record);
    } else if (record.is(Opcode::kAttachment)) {
      take_attachment(record);
    } else if (record.is(Opcode::kDataEnd) && record.bytes == 4) {
      done_ = true;
    } else if (!record.is_unknown()) {
      refuse_record("a record of this kind is not allowed here");
    }
  }

  // Metadata of other programs may have any size.
  void take_metadata(const Record& record) {
    constexpr std::size_t kMaxName = sizeof(std::uint32_t) + kAboutName.size();
    RecordCursor cursor(
        window_.at(record.content(), std::min<std::uint64_t>(kMaxName, record.bytes)));
    if (cursor.number<std::uint32_t>() > kAboutName.size()) return;
    const auto name = RecordCursor(window_.at(record.content(), kMaxName)).text();
    if (name == kAboutName || name == kLostName) note_metadata(content_of(record), contents_);
  }

  // These two return false for a record that was read before: chunks may repeat earlier records.
  bool take_schema(std::span<const std::byte> content) {
    return add_schema(decode_schema(content), contents_);
  }
  bool take_channel(std::span<const std::byte> content) {
    Channel channel = decode_channel(content);
    return contents_.channels.emplace(channel.id, std::move(channel)).second;
  }

  // Adds the place of the chunk to the error if its compression library is missing.
  template <typename Work>
  static auto with_place(const Record& chunk, Work work) {
    try {
      return work();
    } catch (const Error& error) {
      if (error.code() != Code::kUnsupported) throw;
      throw Error(Code::kUnsupported, "the chunk at " + at_byte(chunk.at) + ": " + error.what());
    }
  }

  void take_chunk(const Record& chunk) {
    const auto start =
        window_.at(chunk.content(), std::min<std::uint64_t>(kMaxChunkHead, chunk.bytes));
    const ChunkHead head = decode_chunk(start, chunk.bytes);
    if (head.compression == Compression::kNone) return take_plain_chunk(chunk, head);
    if (chunk.bytes > kMaxChunkBytes) refuse_record("the chunk is too large");
    std::string content = window_.file().read(chunk.content(), chunk.bytes);
    if (content.size() != chunk.bytes) refuse_record("the file was cut meanwhile");
    const UnpackedChunk unpacked =
        with_place(chunk, [&] { return UnpackedChunk(std::as_bytes(std::span(content))); });
    take_packed(chunk, unpacked.records());
  }
  // The records of an uncompressed chunk are handled like those of the file.
  void take_plain_chunk(const Record& chunk, const ChunkHead& head) {
    const std::uint64_t begin = chunk.content() + head.head_bytes();
    const std::uint64_t end = begin + head.stored_bytes;
    for (std::uint64_t at = begin; at < end;) {
      const auto bytes = window_.at(at, kRecordHead);
      if (end - at < kRecordHead || bytes.size() < kRecordHead)
        refuse_record("the last record in the chunk is cut");
      RecordCursor cursor(bytes);
      Record record{at, cursor.number<std::uint8_t>(), 0};
      record.bytes = cursor.number<std::uint64_t>();
      if (record.bytes > end - record.content())
        refuse_record("a record at " + at_byte(at) + " is larger than its chunk");
      with_damage_noted(record, [&] {
        if (record.is(Opcode::kMessage)) return take_message(record);
        if (record.is(Opcode::kSchema))
          take_schema(content_of(record));
        else if (record.is(Opcode::kChannel))
          take_channel(content_of(record));
        else if (!record.is_unknown())
          refuse_record("a record of this kind is not allowed in a chunk");
      });
      at = record.end();
    }
  }

  void take_packed(const Record& chunk, std::span<const std::byte> records) {
    RecordCursor cursor(records);
    while (cursor.left() > 0 && !packed_.is_exceeded()) {
      const std::size_t at = records.size() - cursor.left();
      const auto opcode = static_cast<Opcode>(cursor.number<std::uint8_t>());
      const auto content = cursor.take(cursor.number<std::uint64_t>());
      with_damage_noted(chunk, [&] {
        take_packed_record(opcode, content,
                           {.offset = chunk.at,
                            .bytes = content.size(),
                            .kind = MessageEntry::kPacked,
                            .in_chunk = static_cast<std::uint32_t>(at)});
      });
    }
  }
  void take_packed_record(Opcode opcode, std::span<const std::byte> content, MessageEntry place) {
    if (opcode == Opcode::kMessage) {
      packed_.take(sizeof place);
      note_message(place, content);
    } else if (opcode == Opcode::kSchema) {
      const std::uint64_t bytes = kOfRecord + content.size();
      packed_.require(bytes);
      if (take_schema(content)) packed_.take(bytes);
    } else if (opcode == Opcode::kChannel) {
      const std::uint64_t bytes = kOfRecord + kPerMapByte * content.size();
      packed_.require(bytes);
      if (take_channel(content)) packed_.take(bytes);
    } else if (!is_unknown(opcode)) {
      refuse_record("a record of this kind is not allowed in a chunk");
    }
  }

  void take_message(const Record& record) {
    if (record.bytes < kMessageHead) refuse_record("it is shorter than any message");
    note_message({.offset = record.at, .bytes = record.bytes},
                 window_.at(record.content(), kMessageHead));
  }

  void note_message(MessageEntry entry, std::span<const std::byte> start) {
    RecordCursor cursor(start.first(std::min(start.size(), kMessageHead)));
    const auto channel = cursor.number<std::uint16_t>();
    (void)cursor.number<std::uint32_t>();
    const auto log_time = cursor.number<std::uint64_t>();
    if (!contents_.channels.contains(channel))
      refuse_record("it is of channel " + std::to_string(channel) +
                    ", which the file does not describe");
    if (entry.bytes < kMessageHead) refuse_record("it is shorter than any message");
    entry.channel = channel;
    entry.log_time = log_time;
    contents_.messages.push_back(entry);
  }

  void take_header(const Record& record) {
    RecordCursor cursor(content_of(record));
    (void)cursor.text();
    (void)cursor.text();
    if (record.at != kMagic.size()) refuse_record("a second header");
  }

  // Skips an attachment: its name and its data may have any size.
  void take_attachment(const Record& record) {
    std::uint64_t left = record.bytes;
    const auto pass = [&](std::uint64_t bytes) {
      if (bytes > left) refuse_record("an attachment that is longer than its record");
      left -= bytes;
    };
    const auto length = [&]<typename Number>(Number) {
      const std::uint64_t at = record.end() - left;
      pass(sizeof(Number));
      pass(RecordCursor(window_.at(at, sizeof(Number))).number<Number>());
    };
    pass(2 * sizeof(std::uint64_t));
    length(std::uint32_t{});  // the name
    length(std::uint32_t{});  // the media type
    length(std::uint64_t{});  // the data
    pass(sizeof(std::uint32_t));
  }

  FileWindow window_;
  const std::uint64_t size_;
  const bool ended_;   // the file ends as a finished recording does
  bool done_ = false;  // a DataEnd was found
  Budget packed_;
  Contents contents_;
};

std::uint64_t number_in(const TextMap& map, const char* key) {
  const auto found = map.find(key);
  if (found == map.end()) refuse_record(std::string("it has no entry '") + key + "'");
  const std::string& text = found->second;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    refuse_record(std::string("'") + key + "' is no number");
  return value;
}

}  // namespace

bool add_schema(Schema schema, Contents& contents) {
  return schema.id != 0 && contents.schemas.emplace(schema.id, std::move(schema)).second;
}

void note_metadata(std::span<const std::byte> content, Contents& contents) {
  RecordCursor cursor(content);
  const std::string name = cursor.text();
  if (name != kAboutName && name != kLostName) return;
  TextMap map = cursor.map();
  if (name == kAboutName) {
    contents.about = std::move(map);
  } else {
    const std::uint64_t channel = number_in(map, "channel");
    if (channel > UINT16_MAX || !contents.channels.contains(static_cast<std::uint16_t>(channel)))
      refuse_record("it is about a channel that the file does not describe");
    const auto topic = map.find("topic");
    if (topic != map.end() &&
        topic->second != contents.channels[static_cast<std::uint16_t>(channel)].topic)
      refuse_record("it is about a channel of another topic");
    contents.lost.push_back({static_cast<std::uint16_t>(channel), number_in(map, "first"),
                             number_in(map, "count"), number_in(map, "log_time"), map["why"]});
  }
}

Contents scan(const FileBytes& file) { return Scanner(file).run(); }

}  // namespace tensorbus::tensor::mcap
