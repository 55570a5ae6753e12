#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tensorbus/platform/export.hpp"
#include "tensorbus/recording/record/recorded_sample.hpp"
#include "tensorbus/tensor/mcap/recording_writer.hpp"

namespace tensorbus::recording {

struct RecordCompression {
  tensor::mcap::Compression all = tensor::mcap::Compression::kNone;  // except for large messages
  std::map<std::string, tensor::mcap::Compression> topics{};  // for these, large messages too

  bool any() const noexcept;
  tensor::mcap::Compression of(const std::string& topic, std::uint64_t bytes) const;
  // Throws Error(kUnsupported) for a library that cannot be loaded.
  void require_libraries() const;
};

// Throws Error(kInvalidArgument) for an unknown name.
TENSORBUS_API RecordCompression
record_compression(const std::string& all, const std::map<std::string, std::string>& topics);

struct RecordOutputOptions {
  std::string path;
  bool overwrite = false;
  bool numbered = false;          // the files are "NAME-0001.mcap", "NAME-0002.mcap", ...
  std::uint64_t split_bytes = 0;  // a file is ended before it becomes larger; 0: no limit
  std::uint64_t split_ns = 0;     // a file is ended before it becomes longer; 0: no limit
  tensor::mcap::TextMap about{};  // of the recorder
  RecordCompression compression{};
  bool chunks = false;  // true: samples have their own compression
};

// The files that a recorder writes, one after the other. For one thread.
class TENSORBUS_API RecordOutput {
 public:
  // Throws as RecordCompression::require_libraries() does.
  explicit RecordOutput(RecordOutputOptions options);

  // Throws Error(kInvalidArgument) if one of the files to be made exists.
  void require_no_files() const;
  // Begins the next file. Throws as RecordingWriter does.
  void begin();
  // Adds the sample to the next commit(). Begins another file first if this one is full. The sample
  // must exist until commit() or drop_staged(). Throws as RecordingWriter does.
  void stage(const RecordedSample& sample);
  void commit();
  // Called after stage() or commit() has thrown. The samples are then no longer needed, and the
  // file can only be ended.
  void drop_staged() noexcept;
  // Returns the time at which commit() is due, even if nothing is staged.
  std::optional<std::chrono::steady_clock::time_point> due() const;
  // Ends the file, if there is one. Throws as RecordingWriter::finish() does.
  void finish();
  // Returns a sentence for each topic whose compression was requested, but that was not compressed
  // or only in part: the reason, and what would compress it.
  std::vector<std::string> uncompressed() const;

  std::uint64_t messages() const noexcept;  // in all files
  std::uint64_t bytes() const noexcept;
  std::uint32_t files() const noexcept { return files_; }
  // Returns the path of the file with this number, from 1 on.
  std::string path_of(std::uint32_t number) const;

 private:
  std::size_t number_at() const noexcept;
  tensor::mcap::Compression compression_of(const RecordedSample& sample) const;
  bool is_full(const RecordedSample& next) const noexcept;

  const RecordOutputOptions options_;
  std::set<std::string> unmet_;  // topics with a chosen compression and no sample so far
  std::map<std::string, std::uint64_t> large_;  // uncompressed messages by topic
  std::optional<tensor::mcap::RecordingWriter> writer_;
  std::uint32_t files_ = 0;
  std::uint64_t first_time_ = 0;  // of a message in the file; 0: none
  std::uint64_t earlier_messages_ = 0;
  std::uint64_t earlier_bytes_ = 0;
};

}  // namespace tensorbus::recording
