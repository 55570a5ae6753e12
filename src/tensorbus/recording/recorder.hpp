#pragma once

#include <string>
#include <tensorbus/values/recorded.hpp>

#include "tensorbus/bus/event_loop/fork_safe.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus::recording {

// Writes topics to a file (docs/recording.md). Its participant holds leases until their bytes are
// in the file. One thread receives, another thread writes. Thread-safe.
class TENSORBUS_API Recorder {
 public:
  // Makes the file and subscribes. Throws Error(kInvalidArgument) for an invalid option, which the
  // text names; Error(kUnsupported) for a compression without its library, Error(kPermission),
  // Error(kOutOfMemory) or Error(kSystem) for a file that cannot be made.
  explicit Recorder(const RecorderOptions& options);
  Recorder(Recorder&&) noexcept;
  Recorder& operator=(Recorder&&) noexcept;
  ~Recorder();  // as close(), but drops its error

  // Writes the kept samples to a new file and continues. Returns kDone when the file is written,
  // with its path in `path`, and kClosed if recording has ended. Throws Error(kInvalidArgument)
  // without `snapshot_time`.
  Outcome snapshot(std::string& path, const platform::StopCondition& stop);
  // Waits until an error has ended recording; close() throws the error. Returns kDone, kTimedOut or
  // kInterrupted.
  Outcome wait(const platform::StopCondition& stop);
  RecorderStats stats() const;
  // Writes the messages published before this call, and the end of the file. Throws the Error that
  // ended recording; its text describes what the file contains. A second call does nothing.
  void close();

 private:
  struct State;
  bus::ForkSafe<State> state_;
};

}  // namespace tensorbus::recording
