#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "tensorbus/platform/export.hpp"
#include "tensorbus/tensor/mcap/compression.hpp"
#include "tensorbus/tensor/mcap/contents.hpp"

namespace tensorbus::tensor::mcap {

// A chunk: an MCAP record that contains other records, perhaps compressed.

// Limit for the bytes of a chunk's records, so that a damaged size does not exhaust the memory.
inline constexpr std::uint64_t kMaxChunkBytes = std::uint64_t{1} << 30;
// The bytes before a chunk's records, with the longest name of a compression.
inline constexpr std::size_t kMaxChunkHead = 64;

struct ChunkHead {
  std::uint64_t first_time = 0;
  std::uint64_t last_time = 0;
  std::uint64_t bytes = 0;  // of its records
  std::uint32_t crc = 0;    // of its records; 0: none
  Compression compression = Compression::kNone;
  std::uint64_t stored_bytes = 0;  // of its records in the file

  std::size_t head_bytes() const noexcept { return 40 + name_of(compression).size(); }
};

// Appends the record of a chunk up to the beginning of its records.
void encode_chunk(const ChunkHead& head, std::vector<std::byte>& bytes);
// `start`: the first bytes of the record's content, at least kMaxChunkHead or all. Throws
// Error(kInvalidArgument).
ChunkHead decode_chunk(std::span<const std::byte> start, std::uint64_t content_bytes);

// The messages of each channel: their times, and their offsets in the chunk's records.
using MessageTimes = std::map<std::uint16_t, std::vector<std::pair<std::uint64_t, std::uint64_t>>>;

struct ChunkPlace {
  RecordPlace record{};
  ChunkHead head{};
  std::map<std::uint16_t, std::uint64_t> indexes{};  // offsets of its message indexes, by channel
  std::uint64_t index_bytes = 0;
};
// Appends the message indexes of a chunk, which follow it at byte `at` of the file.
void encode_message_indexes(const MessageTimes& times, std::uint64_t at, ChunkPlace& place,
                            std::vector<std::byte>& bytes);
// Appends the chunk's index record of the summary.
void encode(const ChunkPlace& place, std::vector<std::byte>& bytes);

// The records of a compressed chunk, in memory aligned for the tensors in it.
class TENSORBUS_API UnpackedChunk {
 public:
  // `content`: the content of the chunk's record. Throws Error(kInvalidArgument) that names the
  // damage, or Error(kUnsupported) as decompress() does.
  explicit UnpackedChunk(std::span<const std::byte> content);

  std::span<const std::byte> records() const noexcept { return {records_.get(), bytes_}; }
  Compression compression() const noexcept { return compression_; }  // in the file

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  std::unique_ptr<std::byte, Free> records_;
  std::size_t bytes_ = 0;
  Compression compression_ = Compression::kNone;
};

}  // namespace tensorbus::tensor::mcap
