#pragma once

#include <string>
#include <tensorbus/recorded.hpp>

#include "tensorbus/bus/event_loop/fork_safe.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus {

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
  // Writes what was published before this call, and the end of the file. Throws the Error for which
  // recording has ended, which says what is in the file; the second call does nothing.
  void close();

 private:
  struct State;
  bus::ForkSafe<State> state_;
};

}  // namespace tensorbus
