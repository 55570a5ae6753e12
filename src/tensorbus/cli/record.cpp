#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <tensorbus/internal/fields.hpp>
#include <tensorbus/listing.hpp>
#include <tensorbus/recorder.hpp>
#include <tensorbus/service.hpp>
#include <thread>
#include <vector>

#include "tensorbus/cli/amounts.hpp"
#include "tensorbus/cli/commands.hpp"
#include "tensorbus/cli/json.hpp"
#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/recorder_replies.hpp"
#include "tensorbus/cli/texts.hpp"

namespace tensorbus::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPoll{100};  // between two looks at whether recording has ended by itself

struct RecordOptions {
  std::vector<std::string> topics;
  std::string output = "run.mcap";
  bool all = false;
  std::string regex;
  bool reliable = false;
  std::string buffer = "2G";
  double seconds = -1;  // less than 0: until a signal
  bool overwrite = false;
  std::string split_size;
  std::string split_duration;
  std::string snapshot;
  std::vector<std::string> compress;
  std::string name = kRecorderName;
  std::string domain;
  bool json = false;

  void add_to(CLI::App& command);
};

void RecordOptions::add_to(CLI::App& command) {
  command.add_option("TOPICS", topics, "Names of topics.");
  command
      .add_option("-o,--output", output,
                  "The MCAP file. {time} becomes the local time; missing folders are made then."
                  "  [default: run.mcap]")
      ->option_text("FILE");
  command.add_flag("--all", all, "Every topic, now or later.");
  command.add_option("--regex", regex, "Every topic whose whole name matches.")
      ->option_text("PATTERN");
  command.add_flag("--reliable", reliable,
                   "Reliable publishers wait for the disk, and nothing is lost.");
  command
      .add_option("--buffer", buffer,
                  "Limit of bytes that wait to be written, as 500M.  [default: 2G]")
      ->option_text("BYTES");
  command.add_option("--seconds", seconds, "Seconds to record; by default until Ctrl-C.")
      ->option_text("S")
      ->check(seconds_from(0));
  command.add_flag("--overwrite", overwrite, "Replace the file.");
  command
      .add_option("--split-size", split_size, "Start another file after this many bytes, as 4G.")
      ->option_text("BYTES");
  command
      .add_option("--split-duration", split_duration, "Start another file after this time, as 10m.")
      ->option_text("S");
  command.add_option("--snapshot", snapshot, "Keep this many seconds in memory; write on demand.")
      ->option_text("S");
  command
      .add_option("--compress", compress,
                  "zstd or lz4: messages below 1 MiB; TOPIC=zstd: all of a topic. Repeatable.")
      ->option_text("[TOPIC=]HOW")
      ->allow_extra_args(false);
  command.add_option("--name", name, "The name for `tensorbus recorder`.")->option_text("NAME");
  command.add_option("--domain", domain, "A name or a path in place of $TENSORBUS_DOMAIN.")
      ->option_text("TEXT");
  command.add_flag("--json", json, "Print JSON, one object on each line.");
}

// Returns the local time as 20261130-214500-123.
std::string time_now() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::tm local{};
  ::localtime_r(&now.tv_sec, &local);
  char text[64];
  const std::size_t size = std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
  std::snprintf(text + size, sizeof text - size, "-%03ld", now.tv_nsec / 1'000'000);
  return text;
}

// Returns the name of a file with the local time in place of each "{time}", in an existing folder.
std::string with_time(std::string name) {
  const std::string place = "{time}";
  if (name.find(place) == std::string::npos) return name;
  if (name.ends_with('/'))
    throw CLI::ValidationError("--output", "'" + name + "': expected a file");
  const std::string now = time_now();
  for (std::size_t at = 0; (at = name.find(place)) != std::string::npos;)
    name.replace(at, place.size(), now);
  const char* const home = std::getenv("HOME");
  if (name.starts_with("~/") && home != nullptr) name.replace(0, 1, home);
  const std::filesystem::path folder = std::filesystem::path(name).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) throw Exit(kFailed, "--output: " + shown(folder.string()) + ": " + error.message());
  return name;
}

RecorderOptions recorder_options(const RecordOptions& options) {
  if (options.topics.empty() && options.regex.empty() && !options.all)
    throw CLI::ValidationError("TOPICS", "name topics, or give --all or --regex");
  const Compressions compressions = compressions_in(options.compress);
  RecorderOptions made{.path = with_time(options.output),
                       .topics = options.topics,
                       .all = options.all,
                       .pattern = options.regex,
                       .reliable = options.reliable,
                       .buffer_bytes = bytes_in("--buffer", options.buffer),
                       .overwrite = options.overwrite,
                       .compress = compressions.all,
                       .compress_topics = compressions.topics,
                       .domain = options.domain};
  if (!options.split_size.empty()) made.split_bytes = bytes_in("--split-size", options.split_size);
  if (!options.split_duration.empty())
    made.split_time = seconds_in("--split-duration", options.split_duration);
  if (!options.snapshot.empty()) made.snapshot_time = seconds_in("--snapshot", options.snapshot);
  return made;
}

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

void print_recorder_record(const std::string& file, const RecorderStats& stats) {
  Record("recorder").field("file", file).fields(stats).print();
}

// Blocks the signals that end or ask the recorder, for all threads to come. next() takes one.
class Signals {
 public:
  Signals() {
    sigemptyset(&all_);
    for (const int number : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&all_, number);
    struct sigaction before{};
    ::sigaction(SIGHUP, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaddset(&all_, SIGHUP);  // nohup has it ignored
    ::pthread_sigmask(SIG_BLOCK, &all_, nullptr);
  }
  // Returns the number of a signal, or 0 after the timeout.
  int next(steady_clock::duration timeout) const {
    const auto left = std::max(timeout, steady_clock::duration::zero());
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec limit{seconds.count(), (left - seconds) / std::chrono::nanoseconds(1)};
    return std::max(::sigtimedwait(&all_, nullptr, &limit), 0);
  }

 private:
  sigset_t all_{};
};

// A recorder, the service by which `tensorbus recorder` asks it, and the writing of snapshots.
class RunningRecorder {
 public:
  RunningRecorder(const RecordOptions& options, const RecorderOptions& given)
      : json_(options.json),
        participant_(participant_of(options.domain)),
        node_(options.name, participant_),
        path_(given.path),
        recorder_(recorder_of(given)),
        service_(
            options.name, [this](const Content& request) { return reply_to(request); },
            participant_),
        serving_([this] { serve(); }) {}
  RunningRecorder(const RunningRecorder&) = delete;
  RunningRecorder& operator=(const RunningRecorder&) = delete;
  ~RunningRecorder() {
    stops_ = true;
    serving_.join();
    end_snapshots();
  }

  // Records until a signal, until the time is over, or until an error ends it.
  void run(const Signals& signals, std::optional<steady_clock::time_point> end) {
    while (recorder_.wait(std::chrono::nanoseconds::zero()) == Outcome::kTimedOut) {
      const auto now = steady_clock::now();
      if (end && now >= *end) return;
      const int number = signals.next(end ? std::min<steady_clock::duration>(kPoll, *end - now)
                                          : steady_clock::duration(kPoll));
      if (number == SIGUSR1)
        snapshots_.emplace_back([this] { print_snapshot(); });
      else if (number != 0)
        return;
    }
  }

  // Completes the file and prints what is in it.
  void finish() {
    std::string failure;
    try {
      recorder_.close();
    } catch (const Error& error) {
      failure = error.what();
    }
    end_snapshots();
    const RecorderStats stats = recorder_.stats();
    if (json_)
      print_recorder_record(path_, stats);
    else
      print(std::to_string(stats.messages) + " messages of " + std::to_string(stats.topics) +
            " topics, " + bytes_text(static_cast<double>(stats.bytes)) + ", " +
            std::to_string(stats.lost) + " lost: " + shown(path_) + '\n');
    flush();
    if (stats.unwritable != 0)
      print_error(std::to_string(stats.unwritable) + " lost messages have tensors on a GPU");
    if (!failure.empty()) throw Exit(kFailed, shown(failure));
  }

 private:
  void serve() {
    while (!stops_) (void)service_.serve(kPoll, [this] { return stops_.load(); });
  }
  std::string snapshot() {
    std::string file;
    const Outcome outcome =
        recorder_.snapshot(file, std::chrono::nanoseconds::max(), [this] { return stops_.load(); });
    if (outcome != Outcome::kDone) throw Error(Code::kClosed, "recording has ended");
    return file;
  }
  Content reply_to(const Content& request) {
    const Value* const what = request.fields.find("do");
    if (what == nullptr || (*what != Value("status") && *what != Value("snapshot")))
      throw std::invalid_argument("expected {'do': 'status'} or {'do': 'snapshot'}");
    const std::string file = *what == Value("snapshot") ? snapshot() : path_;
    return {reply_of(file, recorder_.stats())};
  }
  void end_snapshots() {
    for (std::thread& each : snapshots_) each.join();
    snapshots_.clear();
  }
  void print_snapshot() {
    try {
      const std::string file = snapshot();
      const std::lock_guard lock(printing_);
      if (json_) return print_recorder_record(file, recorder_.stats());
      print(shown(file) + '\n');
      flush();
    } catch (const std::exception& error) {
      print_error(shown(error.what()));
    }
  }

  const bool json_;
  const Participant participant_;
  const NodeName node_;
  const std::string path_;
  Recorder recorder_;
  Service service_;
  std::atomic<bool> stops_{false};
  std::mutex printing_;  // of snapshots
  std::vector<std::thread> snapshots_;
  std::thread serving_;  // the last member: it uses the others
};

void record(RecordOptions& options) {
  const RecorderOptions given = recorder_options(options);
  // Tensors of a GPU then arrive in main memory, copied by their owner.
  ::setenv("TENSORBUS_CUDA_DRIVER", "off", 1);
  const Signals signals;
  RunningRecorder recorder(options, given);
  print_line("recording to " + shown(given.path) + "; Ctrl-C ends it");
  std::optional<steady_clock::time_point> end;
  if (options.seconds >= 0)
    end = steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(
                                    std::chrono::duration<double>(options.seconds));
  recorder.run(signals, end);
  recorder.finish();
}

}  // namespace

void add_record(CLI::App& all) {
  add_command(
      all, "record",
      "Record topics to a file, from the memory in which they were published.\n\n"
      "Without --reliable, no publisher waits for the recorder; messages that arrive faster "
      "than the disk writes are lost, and counted. After SIGINT, SIGTERM or SIGHUP the "
      "recorder completes the file and ends. The file can be read even if the recorder is "
      "killed. With --snapshot, it writes only after `tensorbus recorder snapshot` or "
      "SIGUSR1.",
      record);
}

}  // namespace tensorbus::cli
