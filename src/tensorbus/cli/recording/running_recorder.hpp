#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <tensorbus/content.hpp>
#include <tensorbus/listing.hpp>
#include <tensorbus/participant.hpp>
#include <tensorbus/recorder.hpp>
#include <thread>

#include "tensorbus/cli/caught_signals.hpp"
#include "tensorbus/cli/service/running_service.hpp"

namespace tensorbus::cli {

constexpr const char* kRecorderName = "recorder";  // of the service, by default

// A recorder, the service by which `tensorbus recorder` asks it, and the writing of snapshots.
class RunningRecorder {
 public:
  // `name`: of the service, and of the node that lists it. Throws like Recorder, Service and
  // NodeName; Exit if the file exists.
  RunningRecorder(const std::string& name, const RecorderOptions& options, bool json);
  RunningRecorder(const RunningRecorder&) = delete;
  RunningRecorder& operator=(const RunningRecorder&) = delete;
  ~RunningRecorder();

  // Records until a signal, until the time is over, or until an error ends it.
  void run(const CaughtSignals& signals, std::optional<std::chrono::steady_clock::time_point> end);
  // Completes the file.
  void complete();
  // Prints what is in the file. Throws Exit if an error has ended it.
  void report() const;

 private:
  Content reply_to(const Content& request);
  std::string snapshot();
  void ask_for_snapshot();
  void print_snapshot();
  void end_snapshots();

  const bool json_;
  const Participant participant_;
  const NodeName node_;
  const std::string path_;
  Recorder recorder_;
  std::string failure_;        // what has ended recording
  std::atomic<int> asked_{0};  // snapshots that are not written yet
  std::thread snapshots_;
  RunningService service_;  // the last member: it uses the others
};

}  // namespace tensorbus::cli
