#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensorbus/platform/export.hpp"
#include "tensorbus/tensor/mcap/chunk_builder.hpp"
#include "tensorbus/tensor/mcap/contents.hpp"
#include "tensorbus/tensor/mcap/file_output.hpp"
#include "tensorbus/tensor/mcap/message_record.hpp"
#include "tensorbus/tensor/mcap/summary.hpp"

namespace tensorbus::tensor::mcap {

// Writes a recording: an MCAP file (docs/recording.md). Added items are staged; a commit writes
// them without copying the bytes of tensors and fields, which must stay in place until then. If the
// process is killed, the file can be read up to its last complete record.
//
// With `chunks`, all messages lie in chunks. Messages to be compressed are copied, and wait until
// they fill a chunk. The other messages of a commit form one uncompressed chunk, by reference.
// Without `chunks`, nothing is compressed. Used by one thread.
class TENSORBUS_API RecordingWriter {
 public:
  // Makes the file and writes its beginning. Throws as FileOutput and commit() do.
  RecordingWriter(const std::string& path, bool overwrite, const TextMap& about,
                  bool chunks = false);

  // Returns the id of a new channel. `definition`: the definition of its message type; empty: none.
  // Throws Error(kUnsupported) if there are 65,535 channels.
  std::uint16_t add_channel(const std::string& topic, const std::string& definition,
                            const TextMap& metadata);
  void add_lost(const Lost& lost);
  void add_message(const OutgoingMessage& message);
  // Writes all staged items, and compressed chunks that are due. On failure throws Error with the
  // reason: the file then ends with its last complete record, and nothing can be added.
  void commit();
  // Drops all items that are not written, including messages that wait for compression. Afterwards
  // nothing can be added. Called when the memory of staged messages is released before commit().
  void drop_staged() noexcept;
  // Returns the time at which commit() writes messages that wait for compression.
  std::optional<std::chrono::steady_clock::time_point> due() const;
  // Writes all staged and waiting items, the index, and the end of the file. After a failure, it
  // writes only the index and the end, if there is room. Throws as commit() does; the messages stay
  // readable. A second call does nothing.
  void finish();

  std::uint64_t messages() const noexcept { return messages_; }  // in the file
  std::uint64_t bytes() const noexcept { return output_.end(); }
  // Bytes that are not in the file yet, before compression.
  std::size_t staged_bytes() const noexcept;
  const std::string& path() const noexcept { return output_.path(); }

 private:
  // Bytes to be written; if `data` is null, they are the next bytes of `made_`.
  struct Piece {
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  struct StagedEntry {
    MessageEntry entry;
    std::uint64_t end = 0;  // of its record, in the file
  };

  // The uncompressed messages of a commit, in a file with chunks.
  struct PlainChunk {
    bool open = false;
    std::uint64_t at = 0;     // of its record, in the file
    std::size_t head_at = 0;  // in `made_`
    std::size_t first = 0;    // of its messages in `staged_`
  };

  std::uint64_t staged_end() const noexcept { return output_.end() + staged_bytes_; }
  std::uint16_t schema_of(const std::string& definition);
  void put(std::span<const std::byte> bytes);
  void put_made(std::size_t begin);
  void put_message(const OutgoingMessage& message);
  void open_plain_chunk();
  void close_plain_chunk();
  void pack(ChunkBuilder& chunk);
  void pack_due();
  void pack_all();
  RecordPlace stage_metadata(std::string_view name, const TextMap& metadata);
  void stage_index();
  void stage_end();
  [[nodiscard]] int write();
  void take_written();
  [[noreturn]] void fail(const std::string& during, int error_number);

  FileOutput output_;
  std::map<std::string, Schema> schemas_;  // by definition
  std::uint64_t messages_ = 0;
  Summary summary_;                    // without its schemas
  std::vector<MessageEntry> entries_;  // not in an index yet

  std::vector<std::byte> made_;  // records, without the bytes that lie elsewhere
  std::vector<Piece> pieces_;
  std::size_t staged_bytes_ = 0;
  std::vector<StagedEntry> staged_;
  const bool chunks_;
  PlainChunk plain_;
  std::map<Compression, ChunkBuilder> packing_;
  bool failed_ = false;
  bool finished_ = false;
};

}  // namespace tensorbus::tensor::mcap
