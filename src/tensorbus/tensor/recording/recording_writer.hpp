#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tensorbus/platform/export.hpp"
#include "tensorbus/tensor/recording/contents.hpp"
#include "tensorbus/tensor/recording/file_output.hpp"
#include "tensorbus/tensor/recording/message_head.hpp"
#include "tensorbus/tensor/recording/summary.hpp"

namespace tensorbus::recording {

// A message that is to be written.
struct OutgoingMessage {
  std::uint16_t channel = 0;
  std::uint64_t log_time = 0;      // nanoseconds since 1970
  std::uint64_t publish_time = 0;  // the same
  MessageHead head{};              // offsets: from the beginning of the tensor's run
  std::vector<std::span<const std::byte>> runs{};  // ranges of bytes in which the tensors lie
  std::vector<std::size_t> run_of{};               // of each tensor
};

// Writes a recording: an MCAP file without chunks (docs/recording.md). What is added is staged; a
// commit writes it, and copies no bytes of tensors and fields, which stay where they are until
// then. A process that is killed leaves a file that can be read up to the last complete record. For
// one thread.
class TENSORBUS_API RecordingWriter {
 public:
  // Makes the file, and writes its beginning. Throws as FileOutput and as commit().
  RecordingWriter(const std::string& path, bool overwrite, const TextMap& about);

  // Returns the id of a new channel. `definition`: of its message type; empty: none. Throws
  // Error(kUnsupported) if there are 65,535 of them.
  std::uint16_t add_channel(const std::string& topic, const std::string& definition,
                            const TextMap& metadata);
  void add_lost(const Lost& lost);
  void add_message(const OutgoingMessage& message);
  // Writes what is staged. Throws Error that says why it could not: then the file ends with its
  // last complete record, and nothing can be added.
  void commit();
  // Writes what is staged, the index, and the end of the file; after a failure the latter two, if
  // there is room. Throws as commit(); the messages stay readable.
  void finish();

  std::uint64_t messages() const noexcept { return messages_; }  // in the file
  std::uint64_t bytes() const noexcept { return output_.end(); }
  std::size_t staged_bytes() const noexcept { return staged_bytes_; }
  const std::string& path() const noexcept { return output_.path(); }

 private:
  // Bytes that are written: those of `made_`, if `data` is null.
  struct Piece {
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  struct StagedEntry {
    MessageEntry entry;
    std::uint64_t end = 0;  // in the file, of its record
  };

  std::uint64_t staged_end() const noexcept { return output_.end() + staged_bytes_; }
  std::uint16_t schema_of(const std::string& definition);
  void put(std::span<const std::byte> bytes);
  void put_made(std::size_t begin);
  void stage_metadata(std::string_view name, const TextMap& metadata);
  void stage_index();
  void stage_end();
  [[nodiscard]] int write();
  void take_written();
  [[noreturn]] void fail(const std::string& during, int error_number);

  FileOutput output_;
  std::map<std::string, Schema> schemas_;  // by definition
  std::uint64_t messages_ = 0;
  Summary summary_;                    // but for its schemas
  std::vector<MessageEntry> entries_;  // that no index has yet

  std::vector<std::byte> made_;  // records, but for what lies elsewhere
  std::vector<Piece> pieces_;
  std::size_t staged_bytes_ = 0;
  std::vector<StagedEntry> staged_;
  bool failed_ = false;
};

}  // namespace tensorbus::recording
