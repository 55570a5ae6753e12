#include "tensorbus/tensor/mcap/read_contents.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "tensorbus/tensor/mcap/chunk.hpp"
#include "tensorbus/tensor/mcap/crc32.hpp"
#include "tensorbus/tensor/mcap/file_window.hpp"
#include "tensorbus/tensor/mcap/scan.hpp"
#include "tensorbus/tensor/mcap/summary.hpp"

namespace tensorbus::tensor::mcap {
namespace {

constexpr std::uint64_t kAtOnce = std::uint64_t{1} << 16;  // bytes of the summary

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

void require_magic(const FileBytes& file) {
  const std::string begin = file.read(0, kMagic.size());
  if (begin == kMagic) return;
  if (begin.size() < kMagic.size())
    refuse_record("it is no recording: it has only " + std::to_string(begin.size()) + " bytes");
  if (begin.starts_with(kMagic.substr(0, 5)))
    refuse_record("it is an MCAP file of another version than 0");
  refuse_record("it is no recording: it does not begin like an MCAP file");
}

struct Footer {
  std::uint64_t at = 0;
  std::uint64_t summary = 0;
  std::uint32_t crc = 0;
};

Footer footer_of(const FileBytes& file) {
  const std::uint64_t size = file.size();
  if (size < kMagic.size() + kEndBytes) refuse_record("it has no index at its end");
  const std::string end = file.read(size - kEndBytes, kEndBytes);
  if (end.size() != kEndBytes || !end.ends_with(kMagic))
    refuse_record("it has no index at its end: its recorder has not finished it");
  RecordCursor cursor(bytes_of(end));
  if (cursor.number<std::uint8_t>() != static_cast<std::uint8_t>(Opcode::kFooter) ||
      cursor.number<std::uint64_t>() != kFooterBytes)
    refuse_record("the footer is damaged");
  Footer footer{.at = size - kEndBytes};
  footer.summary = cursor.number<std::uint64_t>();
  (void)cursor.number<std::uint64_t>();
  footer.crc = cursor.number<std::uint32_t>();
  if (footer.summary < kMagic.size() || footer.summary > footer.at)
    refuse_record("the footer is damaged: it has the summary at byte " +
                  std::to_string(footer.summary));
  return footer;
}

// Returns a record of the data section that the summary refers to.
std::string record_at(const FileBytes& file, std::uint64_t offset, std::uint64_t bytes,
                      std::uint64_t end) {
  if (offset > end || bytes > end - offset || bytes < kRecordHead || bytes > kMaxSmallBytes)
    refuse_record("the summary is damaged: there is no record of " + std::to_string(bytes) +
                  " bytes at byte " + std::to_string(offset));
  std::string record = file.read(offset, bytes);
  if (record.size() != bytes) refuse_record("the file was cut meanwhile");
  return record;
}

class EndReader {
 public:
  explicit EndReader(const FileBytes& file)
      : file_(file), footer_(footer_of(file)), window_(file) {}

  Contents run() {
    read_summary();
    for (const auto& [offset, bytes] : metadata_) read_metadata(offset, bytes);
    if (!has_index_) refuse_record("the summary has no index");
    if (contents_.messages.size() != count_)
      refuse_record("its indexes have " + std::to_string(contents_.messages.size()) +
                    " messages, the statistics " + std::to_string(count_));
    return std::move(contents_);
  }

 private:
  // A damaged summary may begin anywhere, so only one record at a time is in memory.
  void read_summary() {
    require_checksum();
    for (std::uint64_t at = footer_.summary; at < footer_.at;) {
      const auto [opcode, bytes] = head_at(at);
      at += kRecordHead + bytes;
      if (opcode != Opcode::kChunkIndex && opcode != Opcode::kSummaryOffset)
        take(opcode, bytes_at(at - bytes, bytes));
    }
  }

  void require_checksum() {
    std::uint32_t crc = 0;
    for (std::uint64_t at = footer_.summary; at < footer_.at;) {
      const std::uint64_t end = at + kRecordHead + head_at(at).bytes;
      if (footer_.crc == 0) at = end;
      for (std::uint64_t count = 0; at < end; at += count) {
        count = std::min(end - at, kAtOnce);
        crc = crc32(bytes_at(at, count), crc);
      }
    }
    crc = crc32(bytes_at(footer_.at, kRecordHead + kFooterBytes - sizeof crc), crc);
    if (footer_.crc != 0 && footer_.crc != crc)
      refuse_record("the summary is damaged: the checksum differs");
  }

  struct Head {
    Opcode opcode;
    std::uint64_t bytes;  // of the content
  };
  Head head_at(std::uint64_t at) {
    if (footer_.at - at < kRecordHead) refuse_record("the summary is damaged: a record is cut");
    RecordCursor cursor(bytes_at(at, kRecordHead));
    const auto opcode = static_cast<Opcode>(cursor.number<std::uint8_t>());
    const Head head{opcode, cursor.number<std::uint64_t>()};
    if (!is_of_summary(opcode) || head.bytes > kMaxSmallBytes ||
        head.bytes > footer_.at - at - kRecordHead)
      refuse_record("the summary is damaged: at byte " + std::to_string(at) +
                    " there is a record of kind " + std::to_string(static_cast<int>(opcode)) +
                    " and " + std::to_string(head.bytes) + " bytes");
    return head;
  }

  static bool is_of_summary(Opcode opcode) {
    switch (opcode) {
      case Opcode::kSchema:
      case Opcode::kChannel:
      case Opcode::kStatistics:
      case Opcode::kChunkIndex:
      case Opcode::kAttachmentIndex:
      case Opcode::kMetadataIndex:
      case Opcode::kSummaryOffset:
        return true;
      default:
        return is_unknown(opcode);
    }
  }

  // Valid until the next call.
  std::span<const std::byte> bytes_at(std::uint64_t at, std::uint64_t count) {
    const auto bytes = window_.at(at, count);
    if (bytes.size() != count) refuse_record("the file was cut meanwhile");
    return bytes;
  }

  void take(Opcode opcode, std::span<const std::byte> content) {
    RecordCursor cursor(content);
    if (opcode == Opcode::kSchema) {
      add_schema(decode_schema(content), contents_);
    } else if (opcode == Opcode::kChannel) {
      Channel channel = decode_channel(content);
      contents_.channels.emplace(channel.id, std::move(channel));
    } else if (opcode == Opcode::kStatistics) {
      count_ = cursor.number<std::uint64_t>();
    } else if (opcode == Opcode::kAttachmentIndex) {
      take_attachment(cursor);
    } else if (opcode == Opcode::kMetadataIndex) {
      const auto offset = cursor.number<std::uint64_t>();
      metadata_.push_back({offset, cursor.number<std::uint64_t>()});
      require_behind(metadata_end_, metadata_.back());
    }
  }

  void take_attachment(RecordCursor& cursor) {
    const auto offset = cursor.number<std::uint64_t>();
    const auto bytes = cursor.number<std::uint64_t>();
    (void)cursor.take(3 * sizeof(std::uint64_t));
    if (cursor.text() != kIndexName) return;
    require_behind(index_end_, {offset, bytes});
    const std::string record = record_at(file_, offset, bytes, footer_.summary);
    try {
      const auto entries = decode_index(bytes_of(record), offset);
      for (const MessageEntry& entry : entries) take_entry(entry);
      require_ends(entries);
    } catch (const Error& error) {
      refuse_record("an index, at byte " + std::to_string(offset) +
                    ", is damaged: " + error.what());
    }
    has_index_ = true;
  }

  // Without this order, a record that is named many times could use up the memory.
  static void require_behind(std::uint64_t& end, const RecordPlace& place) {
    if (place.offset < end)
      refuse_record("the summary is damaged: the record at byte " + std::to_string(place.offset) +
                    " is out of order");
    end = place.offset + std::min(place.bytes, UINT64_MAX - place.offset);
  }

  // A program that rewrites a recording may copy records that it does not support, for example this
  // index. The offsets are then those of the old file.
  void require_ends(const std::vector<MessageEntry>& entries) {
    const auto is_there = [](const MessageEntry& entry) { return !entry.is_lost(); };
    const auto first = std::ranges::find_if(entries, is_there);
    if (first == entries.end()) return;
    require_record(*first);
    require_record(*std::ranges::find_if(entries.rbegin(), entries.rend(), is_there));
  }

  void require_record(const MessageEntry& entry) {
    const std::string start = file_.read(entry.offset, kRecordHead + kMaxChunkHead);
    RecordCursor cursor(bytes_of(start));
    const auto opcode = static_cast<Opcode>(cursor.number<std::uint8_t>());
    const auto bytes = cursor.number<std::uint64_t>();
    const bool is_right =
        entry.is_packed()
            ? opcode == Opcode::kChunk &&
                  holds(decode_chunk(bytes_of(start).subspan(kRecordHead), bytes), entry)
            : opcode == Opcode::kMessage && bytes == entry.bytes &&
                  cursor.number<std::uint16_t>() == entry.channel;
    if (!is_right)
      refuse_record("the file has another record at byte " + std::to_string(entry.offset) +
                    " than the index");
  }

  static bool holds(const ChunkHead& chunk, const MessageEntry& entry) {
    return chunk.compression != Compression::kNone && chunk.first_time <= entry.log_time &&
           entry.log_time <= chunk.last_time && entry.in_chunk + kRecordHead <= chunk.bytes &&
           entry.bytes <= chunk.bytes - kRecordHead - entry.in_chunk;
  }

  void take_entry(const MessageEntry& entry) {
    if (!contents_.channels.contains(entry.channel))
      refuse_record("it has a message of channel " + std::to_string(entry.channel) +
                    ", which the file does not describe");
    if (entry.is_lost())
      contents_.lost.push_back({entry.channel, entry.offset, entry.bytes, entry.log_time});
    else
      contents_.messages.push_back(entry);
  }

  void read_metadata(std::uint64_t offset, std::uint64_t bytes) {
    const std::string record = record_at(file_, offset, bytes, footer_.summary);
    const std::size_t before = contents_.lost.size();
    note_metadata(bytes_of(record).subspan(kRecordHead), contents_);
    if (contents_.lost.size() == before) return;
    const Lost last = std::move(contents_.lost.back());
    contents_.lost.pop_back();
    note_reason(last);
  }

  // The index has these messages in the same order, but without the reason.
  void note_reason(const Lost& last) {
    const auto same = [&last](const Lost& lost) {
      return lost.channel == last.channel && lost.first == last.first && lost.count == last.count;
    };
    const auto behind = contents_.lost.begin() + static_cast<std::ptrdiff_t>(reasons_until_);
    const auto found = std::find_if(behind, contents_.lost.end(), same);
    reasons_until_ = static_cast<std::size_t>(found - contents_.lost.begin());
    if (found != contents_.lost.end()) found->why = last.why;
  }

  const FileBytes& file_;
  const Footer footer_;
  FileWindow window_;  // over the summary
  std::vector<RecordPlace> metadata_;
  std::uint64_t metadata_end_ = 0;  // end of the last metadata record
  std::uint64_t index_end_ = 0;     // end of the last index
  std::uint64_t count_ = 0;
  bool has_index_ = false;
  std::size_t reasons_until_ = 0;  // in `lost`
  Contents contents_;
};

Contents by_end_or_scan(const FileBytes& file) {
  try {
    return EndReader(file).run();
  } catch (const Error& error) {
    if (error.code() != Code::kInvalidArgument) throw;
    Contents contents = scan(file);
    const std::string why = error.what();
    if (contents.recovered.find(why) == std::string::npos)
      contents.recovered = why + "; " + contents.recovered;
    return contents;
  }
}

}  // namespace

Contents read_contents(const FileBytes& file) {
  require_magic(file);
  Contents contents = by_end_or_scan(file);
  std::ranges::stable_sort(contents.messages, {}, &MessageEntry::log_time);
  return contents;
}

}  // namespace tensorbus::tensor::mcap
