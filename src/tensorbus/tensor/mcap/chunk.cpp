#include "tensorbus/tensor/mcap/chunk.hpp"

#include <algorithm>
#include <new>
#include <string>

#include "tensorbus/tensor/mcap/crc32.hpp"
#include "tensorbus/tensor/mcap/mcap.hpp"

namespace tensorbus::tensor::mcap {
namespace {

constexpr std::align_val_t kChunkAlignment{4096};

// Reports an unknown name as damage: in a file, damage is an equally likely cause.
Compression compression_in(const std::string& name) {
  try {
    return compression_named(name);
  } catch (const Error& error) {
    refuse_record(error.what());
  }
}

}  // namespace

void encode_chunk(const ChunkHead& head, std::vector<std::byte>& bytes) {
  RecordWriter out(bytes);
  out.begin(Opcode::kChunk);
  out.number(head.first_time);
  out.number(head.last_time);
  out.number(head.bytes);
  out.number(head.crc);
  out.text(name_of(head.compression));
  out.number(head.stored_bytes);
  out.end(head.stored_bytes);
}

ChunkHead decode_chunk(std::span<const std::byte> start, std::uint64_t content_bytes) {
  RecordCursor cursor(start);
  ChunkHead head;
  head.first_time = cursor.number<std::uint64_t>();
  head.last_time = cursor.number<std::uint64_t>();
  head.bytes = cursor.number<std::uint64_t>();
  head.crc = cursor.number<std::uint32_t>();
  head.compression = compression_in(cursor.text());
  head.stored_bytes = cursor.number<std::uint64_t>();
  if (head.stored_bytes > content_bytes - head.head_bytes())
    refuse_record("a chunk of " + std::to_string(content_bytes) + " bytes whose header gives " +
                  std::to_string(head.stored_bytes) + " bytes of records");
  if (head.compression == Compression::kNone && head.bytes != head.stored_bytes)
    refuse_record("a chunk without compression whose records have two sizes");
  return head;
}

void encode_message_indexes(const MessageTimes& times, std::uint64_t at, ChunkPlace& place,
                            std::vector<std::byte>& bytes) {
  const std::size_t begin = bytes.size();
  for (const auto& [channel, messages] : times) {
    place.indexes[channel] = at + (bytes.size() - begin);
    RecordWriter out(bytes);
    out.begin(Opcode::kMessageIndex);
    out.number(channel);
    out.number(static_cast<std::uint32_t>(messages.size() * 2 * sizeof(std::uint64_t)));
    for (const auto& [log_time, offset] : messages) {
      out.number(log_time);
      out.number(offset);
    }
    out.end();
  }
  place.index_bytes = bytes.size() - begin;
}

void encode(const ChunkPlace& place, std::vector<std::byte>& bytes) {
  RecordWriter out(bytes);
  out.begin(Opcode::kChunkIndex);
  out.number(place.head.first_time);
  out.number(place.head.last_time);
  out.number(place.record.offset);
  out.number(place.record.bytes);
  out.map(place.indexes);
  out.number(place.index_bytes);
  out.text(name_of(place.head.compression));
  out.number(place.head.stored_bytes);
  out.number(place.head.bytes);
  out.end();
}

void UnpackedChunk::Free::operator()(std::byte* memory) const noexcept {
  ::operator delete(memory, kChunkAlignment);
}

UnpackedChunk::UnpackedChunk(std::span<const std::byte> content) {
  const ChunkHead head = decode_chunk(content, content.size());
  if (head.bytes > kMaxChunkBytes)
    refuse_record("a chunk that unpacks to " + std::to_string(head.bytes) + " bytes, more than " +
                  std::to_string(kMaxChunkBytes));
  bytes_ = head.bytes;
  compression_ = head.compression;
  records_.reset(
      static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes_, 1), kChunkAlignment)));
  decompress(head.compression, content.subspan(head.head_bytes(), head.stored_bytes),
             {records_.get(), bytes_});
  if (head.crc != 0 && head.crc != crc32(records()))
    refuse_record("a damaged chunk: its checksum differs");
}

}  // namespace tensorbus::tensor::mcap
