#include "tensorbus/tensor/mcap/summary.hpp"

#include <cstring>

#include "tensorbus/tensor/mcap/crc32.hpp"

namespace tensorbus::tensor::mcap {
namespace {

constexpr std::string_view kIndexMagic = "TBX1";

// Records of one opcode in the summary.
struct Group {
  Opcode opcode;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};

void encode_statistics(const Summary& summary, std::vector<std::byte>& bytes) {
  std::uint64_t messages = 0;
  for (const auto& [channel, count] : summary.messages) messages += count;
  RecordWriter out(bytes);
  out.begin(Opcode::kStatistics);
  out.number(messages);
  out.number(static_cast<std::uint16_t>(summary.schemas.size()));
  out.number(static_cast<std::uint32_t>(summary.channels.size()));
  out.number(static_cast<std::uint32_t>(summary.indexes.size()));
  out.number(summary.metadata_count);
  out.number(static_cast<std::uint32_t>(summary.chunks.size()));
  out.number(summary.first_time);
  out.number(summary.last_time);
  out.map(summary.messages);
  out.end();
}

void encode(const IndexPlace& index, std::vector<std::byte>& bytes) {
  RecordWriter out(bytes);
  out.begin(Opcode::kAttachmentIndex);
  out.number(index.record.offset);
  out.number(index.record.bytes);
  out.number(index.log_time);
  out.number(std::uint64_t{0});  // creation time
  out.number(index.data_bytes);
  out.text(kIndexName);
  out.text(kIndexType);
  out.end();
}

void encode_metadata_index(const RecordPlace& record, std::string_view name,
                           std::vector<std::byte>& bytes) {
  RecordWriter out(bytes);
  out.begin(Opcode::kMetadataIndex);
  out.number(record.offset);
  out.number(record.bytes);
  out.text(name);
  out.end();
}

void encode_footer(std::uint64_t begin, std::uint64_t offsets, std::size_t start,
                   std::vector<std::byte>& bytes) {
  RecordWriter out(bytes);
  out.begin(Opcode::kFooter);
  out.number(begin);
  out.number(offsets);
  out.end(sizeof(std::uint32_t));
  out.number(crc32(std::span(bytes).subspan(start)));
  out.raw(kMagic);
}

// The chunk of a packed message is checked when it is read.
void require_in_file(const MessageEntry& entry, std::uint64_t end) {
  if (entry.is_lost()) return;
  if (entry.kind > MessageEntry::kPacked) refuse_record("a message of an unknown kind");
  const std::uint64_t bytes = entry.is_packed() ? 0 : entry.bytes;
  if (entry.offset > end || bytes > end - entry.offset ||
      end - entry.offset - bytes < kRecordHead || entry.bytes < kMessageHead)
    refuse_record("a message does not lie in the file");
}

}  // namespace

IndexPlace encode_index(std::span<const MessageEntry> entries, std::uint64_t at,
                        std::vector<std::byte>& bytes) {
  const std::size_t begin = bytes.size();
  const std::uint64_t log_time = entries.empty() ? 0 : entries.back().log_time;
  const std::uint64_t data_bytes = kIndexMagic.size() + entries.size_bytes();
  RecordWriter out(bytes);
  out.begin(Opcode::kAttachment);
  out.number(log_time);
  out.number(std::uint64_t{0});  // creation time
  out.text(kIndexName);
  out.text(kIndexType);
  out.number(data_bytes);
  out.raw(kIndexMagic);
  out.raw(std::as_bytes(entries));
  out.number(crc32(std::span(bytes).subspan(begin + kRecordHead)));
  out.end();
  return {{at, bytes.size() - begin}, log_time, data_bytes};
}

std::vector<MessageEntry> decode_index(std::span<const std::byte> record, std::uint64_t end) {
  RecordCursor cursor(record);
  if (cursor.number<std::uint8_t>() != static_cast<std::uint8_t>(Opcode::kAttachment) ||
      cursor.number<std::uint64_t>() != cursor.left())
    refuse_record("there is no attachment");
  const auto content = record.subspan(kRecordHead);
  (void)cursor.take(2 * sizeof(std::uint64_t));
  (void)cursor.text();
  (void)cursor.text();
  RecordCursor data(cursor.take(cursor.number<std::uint64_t>()));
  const auto checked = content.first(content.size() - cursor.left());
  if (cursor.number<std::uint32_t>() != crc32(checked)) refuse_record("its checksum differs");
  const auto magic = data.take(kIndexMagic.size());
  if (std::memcmp(magic.data(), kIndexMagic.data(), magic.size()) != 0 ||
      data.left() % sizeof(MessageEntry) != 0)
    refuse_record("it is not an index of Tensorbus");
  std::vector<MessageEntry> messages(data.left() / sizeof(MessageEntry));
  if (!messages.empty())
    std::memcpy(messages.data(), data.take(data.left()).data(),
                messages.size() * sizeof(MessageEntry));
  for (const MessageEntry& entry : messages) require_in_file(entry, end);
  return messages;
}

void encode(const Schema& schema, std::vector<std::byte>& bytes) {
  RecordWriter out(bytes);
  out.begin(Opcode::kSchema);
  out.number(schema.id);
  out.text(schema.name);
  out.text(schema.encoding);
  out.text(schema.definition);
  out.end();
}

void encode(const Channel& channel, std::vector<std::byte>& bytes) {
  RecordWriter out(bytes);
  out.begin(Opcode::kChannel);
  out.number(channel.id);
  out.number(channel.schema);
  out.text(channel.topic);
  out.text(channel.encoding);
  out.map(channel.metadata);
  out.end();
}

Schema decode_schema(std::span<const std::byte> content) {
  RecordCursor cursor(content);
  Schema schema;
  schema.id = cursor.number<std::uint16_t>();
  schema.name = cursor.text();
  schema.encoding = cursor.text();
  schema.definition = cursor.text();
  return schema;
}

Channel decode_channel(std::span<const std::byte> content) {
  RecordCursor cursor(content);
  Channel channel;
  channel.id = cursor.number<std::uint16_t>();
  channel.schema = cursor.number<std::uint16_t>();
  channel.topic = cursor.text();
  channel.encoding = cursor.text();
  channel.metadata = cursor.map();
  return channel;
}

void encode_summary(const Summary& summary, std::uint64_t begin, std::vector<std::byte>& bytes) {
  const std::size_t start = bytes.size();
  const auto at = [&] { return begin + (bytes.size() - start); };
  std::vector<Group> groups;
  const auto end_group = [&](Opcode opcode, std::uint64_t group) {
    if (at() > group) groups.push_back({opcode, group, at() - group});
  };
  const auto add_group = [&](Opcode opcode, const auto& records) {
    const std::uint64_t group = at();
    for (const auto& record : records) encode(record, bytes);
    end_group(opcode, group);
  };
  add_group(Opcode::kSchema, summary.schemas);
  add_group(Opcode::kChannel, summary.channels);
  const std::uint64_t statistics = at();
  encode_statistics(summary, bytes);
  end_group(Opcode::kStatistics, statistics);
  add_group(Opcode::kChunkIndex, summary.chunks);
  add_group(Opcode::kAttachmentIndex, summary.indexes);
  const std::uint64_t metadata = at();
  encode_metadata_index(summary.about, kAboutName, bytes);
  for (const RecordPlace& lost : summary.reasons) encode_metadata_index(lost, kLostName, bytes);
  end_group(Opcode::kMetadataIndex, metadata);
  const std::uint64_t offsets = at();
  for (const Group& group : groups) {
    RecordWriter out(bytes);
    out.begin(Opcode::kSummaryOffset);
    out.number(static_cast<std::uint8_t>(group.opcode));
    out.number(group.begin);
    out.number(group.bytes);
    out.end();
  }
  encode_footer(begin, offsets, start, bytes);
}

}  // namespace tensorbus::tensor::mcap
