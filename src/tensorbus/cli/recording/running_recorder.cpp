#include "tensorbus/cli/recording/running_recorder.hpp"

#include <algorithm>
#include <csignal>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "tensorbus/cli/commands.hpp"
#include "tensorbus/cli/json.hpp"
#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/service/replies.hpp"
#include "tensorbus/cli/texts.hpp"

namespace tensorbus::cli {
namespace {

using std::chrono::steady_clock;

// Between two looks at whether recording has ended by itself.
constexpr std::chrono::milliseconds kPoll{100};

Recorder recorder_of(const RecorderOptions& options) {
  try {
    return Recorder(options);
  } catch (const Error& error) {
    // What depends on files is no wrong command line.
    if (std::string_view(error.what()).find("it exists") != std::string_view::npos)
      throw Exit(kFailed, shown(error.what()));
    throw;
  }
}

Record recorder_record(const std::string& file, const RecorderStats& stats) {
  return Record("recorder").field("file", file).fields(stats);
}

}  // namespace

RunningRecorder::RunningRecorder(const std::string& name, const RecorderOptions& options, bool json)
    : json_(json),
      participant_(participant_of(options.domain)),
      node_(name, participant_),
      path_(options.path),
      recorder_(recorder_of(options)),
      service_(name, [this](const Content& request) { return reply_to(request); }, participant_) {}

RunningRecorder::~RunningRecorder() {
  service_.stop();
  end_snapshots();
}

void RunningRecorder::run(const CaughtSignals& signals,
                          std::optional<steady_clock::time_point> end) {
  while (recorder_.wait(std::chrono::nanoseconds::zero()) == Outcome::kTimedOut) {
    const auto now = steady_clock::now();
    if (end && now >= *end) return;
    const int number = signals.next(end ? std::min<steady_clock::duration>(kPoll, *end - now)
                                        : steady_clock::duration(kPoll));
    if (number == SIGUSR1)
      ask_for_snapshot();
    else if (number != 0)
      return;
  }
}

void RunningRecorder::complete() {
  try {
    recorder_.close();
  } catch (const Error& error) {
    failure_ = error.what();
  }
  end_snapshots();
}

void RunningRecorder::report() const {
  const RecorderStats stats = recorder_.stats();
  if (json_)
    recorder_record(path_, stats).add();
  else
    print(std::to_string(stats.messages) + " messages of " + std::to_string(stats.topics) +
          " topics, " + bytes_text(static_cast<double>(stats.bytes)) + ", " +
          std::to_string(stats.lost) + " lost: " + shown(path_) + '\n');
  if (stats.unwritable != 0)
    print_error(std::to_string(stats.unwritable) + " lost messages have tensors on a GPU");
  if (!failure_.empty()) print_error(shown(failure_));
  flush();
  if (!failure_.empty()) throw Exit(kFailed);
}

Content RunningRecorder::reply_to(const Content& request) {
  const Value* const what = request.fields.find("do");
  if (what == nullptr || (*what != Value("status") && *what != Value("snapshot")))
    throw std::invalid_argument("expected {'do': 'status'} or {'do': 'snapshot'}");
  const std::string file = *what == Value("snapshot") ? snapshot() : path_;
  return {reply_of(file, recorder_.stats())};
}

std::string RunningRecorder::snapshot() {
  std::string file;
  const Outcome outcome = recorder_.snapshot(file, std::chrono::nanoseconds::max(),
                                             [this] { return service_.stops(); });
  if (outcome != Outcome::kDone) throw Error(Code::kClosed, "recording has ended");
  return file;
}

// Has a thread write one snapshot after the other: each waits for the disk.
void RunningRecorder::ask_for_snapshot() {
  if (asked_++ != 0) return;
  end_snapshots();
  try {
    snapshots_ = std::thread([this] {
      do print_snapshot();
      while (--asked_ != 0);
    });
  } catch (const std::system_error& error) {
    asked_ = 0;
    print_error(std::string("no snapshot: ") + error.what());
  }
}

void RunningRecorder::print_snapshot() {
  try {
    const std::string file = snapshot();
    if (json_) return recorder_record(file, recorder_.stats()).print();
    print(shown(file) + '\n');
    flush();
  } catch (const std::exception& error) {
    if (*error.what() != '\0') print_error(shown(error.what()));
  }
}

void RunningRecorder::end_snapshots() {
  if (snapshots_.joinable()) snapshots_.join();
}

}  // namespace tensorbus::cli
