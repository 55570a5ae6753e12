// Recordings: the input as it is, or a valid recording with bytes that are changed, removed or cut
// off. Every message that is found lies in the file. All tensors of a message with a valid head lie
// in it, too.

#include <algorithm>
#include <optional>
#include <string>

#include "fuzz/fuzz.hpp"
#include "tensorbus/tensor/mcap/chunk.hpp"
#include "tensorbus/tensor/mcap/message_head.hpp"
#include "tensorbus/tensor/mcap/read_contents.hpp"
#include "tests/unit/tensor/files/file_test_support.hpp"
#include "tests/unit/tensor/mcap/recording_test_support.hpp"

namespace tensorbus::fuzz {
namespace {

using tensor::mcap::Contents;
using tensor::mcap::kMessageHead;
using tensor::mcap::kRecordHead;
using tensor::mcap::MessageEntry;
using tensor::mcap::MessageHead;

constexpr int kMaxChanges = 8;

// Returns the input as it is, or a nearly valid recording.
std::string file_of(Input& input) {
  static const std::string whole = test::recorded();
  static const std::string killed = test::recorded(true);
  static const std::string zstd = test::recorded_in_chunks(tensor::mcap::Compression::kZstd);
  static const std::string lz4 = test::recorded_in_chunks(tensor::mcap::Compression::kLz4);
  const std::uint8_t kind = input.byte() % 7;
  if (kind == 0) return std::string(text_of(input.rest()));
  std::string file = kind < 3 ? (kind == 1 ? whole : killed) : (kind < 5 ? zstd : lz4);
  if (kind % 2 == 0 && kind > 2) file.resize(file.size() - 1);  // so that the reader scans it
  for (int i = 0; i < kMaxChanges && !input.empty() && !file.empty(); ++i) {
    const std::uint8_t what = input.byte() % 4;
    const std::size_t at = input.take<std::uint16_t>() % file.size();
    if (what == 0)
      file[at] = static_cast<char>(input.byte());
    else if (what == 1)
      file.replace(at, sizeof(std::uint64_t), text_of(input.bytes(sizeof(std::uint64_t))));
    else if (what == 2)
      file.erase(at, input.byte());
    else
      file.resize(at);
  }
  return file;
}

std::optional<MessageHead> head_of(std::span<const std::byte> data) {
  MessageHead head;
  const bool read = accepts(
      [&] {
        const std::uint64_t bytes = tensor::mcap::head_bytes_in(data, data.size());
        head = tensor::mcap::decode_head(data.first(bytes), data.size());
      },
      Code::kInvalidArgument);
  return read ? std::optional(head) : std::nullopt;
}

// Checks that a head is encoded and decoded again without a change.
void require_same(const MessageHead& head, std::span<const std::byte> data) {
  std::vector<std::byte> again;
  tensor::mcap::encode_head(head, again);
  again.insert(again.end(), head.fields.begin(), head.fields.end());
  check(again.size() == tensor::mcap::head_bytes(head) && again.size() <= data.size());
  const MessageHead read = tensor::mcap::decode_head(again, data.size());
  check(read.sequence == head.sequence && read.fingerprint == head.fingerprint);
  check(read.tensors.size() == head.tensors.size());
  for (std::size_t i = 0; i < head.tensors.size(); ++i)
    check(read.tensors[i].published_on == head.tensors[i].published_on);
  for (const tensor::mcap::PlacedTensor& tensor : head.tensors) {
    const ByteSpan span = span_of(tensor.layout);
    if (span.bytes() == 0) continue;
    check(static_cast<std::int64_t>(tensor.offset) + span.begin >=
          static_cast<std::int64_t>(again.size()));
    check(tensor.offset + static_cast<std::uint64_t>(span.end) <= data.size());
  }
}

// Reads a message in a chunk. The chunk, or the message, may be refused.
void read_packed(std::span<const std::byte> file, const MessageEntry& entry) {
  const auto read = [&] {
    tensor::mcap::RecordCursor cursor(file.subspan(entry.offset));
    (void)cursor.number<std::uint8_t>();
    const tensor::mcap::UnpackedChunk chunk(cursor.take(cursor.number<std::uint64_t>()));
    tensor::mcap::RecordCursor record(chunk.records());
    (void)record.take(std::uint64_t{entry.in_chunk} + kRecordHead + kMessageHead);
    const auto data = record.take(entry.bytes - kMessageHead);
    if (const auto head = head_of(data)) require_same(*head, data);
  };
  try {
    read();
  } catch (const Error& error) {  // or another compression
    check(error.code() == Code::kInvalidArgument || error.code() == Code::kUnsupported);
  }
}

void run(Input input) {
  const std::string file = file_of(input);
  Contents contents;
  bool chunked = false;
  const auto read = [&] {
    try {
      contents = tensor::mcap::read_contents(test::Content(file).bytes());
    } catch (const Error& error) {
      chunked = error.code() == Code::kUnsupported;  // another compression
      if (!chunked) throw;
    }
  };
  if (!accepts(read, Code::kInvalidArgument) || chunked) return;
  check(std::ranges::is_sorted(contents.messages, {}, &MessageEntry::log_time));
  const auto bytes = std::as_bytes(std::span(file));
  for (const MessageEntry& entry : contents.messages) {
    check(contents.channels.contains(entry.channel));
    check(entry.bytes >= kMessageHead);
    if (entry.is_packed()) {
      read_packed(bytes, entry);
      continue;
    }
    check(entry.offset + kRecordHead + entry.bytes <= file.size());
    const auto data =
        bytes.subspan(entry.offset + kRecordHead + kMessageHead, entry.bytes - kMessageHead);
    if (const auto head = head_of(data)) require_same(*head, data);
  }
  for (const tensor::mcap::Lost& lost : contents.lost)
    check(contents.channels.contains(lost.channel));
}

}  // namespace
}  // namespace tensorbus::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tensorbus::fuzz::run(tensorbus::fuzz::Input(data, size));
  return 0;
}
