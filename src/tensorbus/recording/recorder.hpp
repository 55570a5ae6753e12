#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tensorbus/bus/event_loop/fork_safe.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus {

struct RecorderOptions {
  std::string path;
  std::vector<std::string> topics{};
  bool all = false;       // every topic that has a publisher, now or later
  std::string pattern{};  // every topic whose whole name matches this regular expression
  bool reliable = false;  // publishers wait for the recorder; else it drops, and counts
  std::uint64_t buffer_bytes = std::uint64_t{2} << 30;  // that wait to be written, at most
  std::uint32_t depth = 64;  // samples that may wait in each publisher, until they are taken
  bool overwrite = false;
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

// Writes topics to a file (docs/recording.md). It is a participant of its own, which holds leases
// until their bytes are in the file. One thread receives, another one writes. Thread-safe.
class TENSORBUS_API Recorder {
 public:
  // Makes the file and subscribes. Throws Error(kInvalidArgument) that names the option,
  // Error(kUnsupported) for a compression whose library is not there, Error(kPermission),
  // Error(kOutOfMemory), Error(kSystem) for a file that cannot be made.
  explicit Recorder(const RecorderOptions& options);
  Recorder(Recorder&&) noexcept;
  Recorder& operator=(Recorder&&) noexcept;
  ~Recorder();  // close(), without its error

  // Writes what was kept to a file of its own, and goes on. The outcome is kDone when it is
  // written, kClosed if recording has ended; `path` is then that of the file. Throws
  // Error(kInvalidArgument) without `snapshot_time`.
  Outcome snapshot(std::string& path, const platform::StopCondition& stop);
  // Waits until recording has ended by an error: kDone, which close() throws; or kTimedOut,
  // kInterrupted.
  Outcome wait(const platform::StopCondition& stop);
  RecorderStats stats() const;
  // Writes all that was received, and the end of the file. Throws the Error for which recording
  // has ended, which says what is in the file; the second call does nothing.
  void close();

 private:
  struct State;
  bus::ForkSafe<State> state_;
};

}  // namespace tensorbus
