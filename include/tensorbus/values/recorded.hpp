#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tensorbus::inline v0 {

// The topics that a recorder records, and the file that it writes.
struct RecorderOptions {
  std::string path;
  std::vector<std::string> topics{};
  bool all = false;       // every topic that has a publisher, now or later
  std::string pattern{};  // every topic whose whole name matches this regular expression
  bool reliable = false;  // publishers wait for the recorder; else samples are dropped and counted
  std::uint64_t buffer_bytes = std::uint64_t{2} << 30;  // limit for samples that wait to be written
  std::uint32_t depth = 64;                             // samples that may wait in each publisher
  bool overwrite = false;                               // replaces an existing file
  // The recorder ends a file before it exceeds this size or duration, and begins another one:
  // "NAME-0001.mcap", and so on. 0: one file, `path`.
  std::uint64_t split_bytes = 0;
  std::chrono::nanoseconds split_time{0};
  // The recorder writes only at snapshot(): the samples of this long before the call. 0: writes
  // all.
  std::chrono::nanoseconds snapshot_time{0};
  // "zstd" or "lz4". `compress` applies to all topics, except messages of 1 MiB or more.
  // `compress_topics` applies to single topics, including their large messages ("": none).
  std::string compress{};
  std::map<std::string, std::string> compress_topics{};
  std::string domain{};
};

struct RecorderStats {
  std::uint64_t messages = 0;        // in the files
  std::uint64_t bytes = 0;           // of the files
  std::uint32_t files = 0;           // begun
  std::uint64_t lost = 0;            // known to be missing in the files
  std::uint64_t unwritable = 0;      // of these: with tensors on a GPU
  std::uint64_t buffered_bytes = 0;  // received and not yet written
  std::uint32_t topics = 0;
  std::string error{};  // that ended recording; empty: none
};

// A topic in a recording.
struct RecordedTopic {
  std::string name{};
  // Definitions: usually one; none: any. Of other programs, the names of the schemas.
  std::vector<std::string> types{};
  std::uint32_t publishers = 0;
  std::uint64_t messages = 0;
  std::uint64_t lost = 0;      // published while recording, but not in the file
  std::uint64_t begin_ns = 0;  // time of the first message, ns since 1970; 0: none
  std::uint64_t end_ns = 0;    // time of the last
};

}  // namespace tensorbus::inline v0
