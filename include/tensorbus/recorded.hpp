#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tensorbus::inline v0 {

// What a recorder records, and where to.
struct RecorderOptions {
  std::string path;
  std::vector<std::string> topics{};
  bool all = false;       // every topic that has a publisher, now or later
  std::string pattern{};  // every topic whose whole name matches this regular expression
  bool reliable = false;  // publishers wait for the recorder; else it drops, and counts
  std::uint64_t buffer_bytes = std::uint64_t{2} << 30;  // that wait to be written, at most
  std::uint32_t depth = 64;  // samples that may wait in each publisher, until they are taken
  bool overwrite = false;    // else the file must not exist
  // A file that would get larger, or longer, is ended, and another one begun: "NAME-0001.mcap", ...
  // 0: there is one file, `path`.
  std::uint64_t split_bytes = 0;
  std::chrono::nanoseconds split_time{0};
  // Nothing is written until snapshot(), and then the samples of so long a time before. 0: all are.
  std::chrono::nanoseconds snapshot_time{0};
  // By name, as "zstd", "lz4": of all topics, but for messages of 1 MiB or more; and of these,
  // large messages, too, or "" for none.
  std::string compress{};
  std::map<std::string, std::string> compress_topics{};
  std::string domain{};
};

struct RecorderStats {
  std::uint64_t messages = 0;        // in the files
  std::uint64_t bytes = 0;           // of the files
  std::uint32_t files = 0;           // that were begun
  std::uint64_t lost = 0;            // known to be missing there
  std::uint64_t unwritable = 0;      // among the lost: with tensors on a GPU
  std::uint64_t buffered_bytes = 0;  // received, and not yet written
  std::uint32_t topics = 0;
  std::string error{};  // for which it has ended; empty: none
};

// A topic in a recording.
struct RecordedTopic {
  std::string name{};
  // Definitions: one, as a rule; none: any. Of other programs: the names of the schemas.
  std::vector<std::string> types{};
  std::uint32_t publishers = 0;
  std::uint64_t messages = 0;
  std::uint64_t lost = 0;  // published while it was recorded, and not in the file
  std::uint64_t begin_ns =
      0;                     // when the first message was recorded, ns since 1970; 0: there is none
  std::uint64_t end_ns = 0;  // the same of the last
};

}  // namespace tensorbus::inline v0
