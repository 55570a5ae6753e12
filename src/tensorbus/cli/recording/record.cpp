#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "tensorbus/cli/amounts.hpp"
#include "tensorbus/cli/caught_signals.hpp"
#include "tensorbus/cli/commands.hpp"
#include "tensorbus/cli/help.hpp"
#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/recording/running_recorder.hpp"
#include "tensorbus/cli/texts.hpp"

namespace tensorbus::cli {
namespace {

using std::chrono::steady_clock;

struct RecordOptions {
  const CLI::App* parsed = nullptr;  // its extra words are the topics
  std::string output = "run.mcap";
  bool all = false;
  std::string regex;
  bool reliable = false;
  std::string buffer = "2G";
  double seconds = -1;  // less than 0: until a signal
  bool overwrite = false;
  std::optional<std::string> split_size;
  std::optional<std::string> split_duration;
  std::optional<std::string> snapshot;
  std::vector<std::string> compress;
  std::string name = kRecorderName;
  std::string domain;
  bool json = false;

  void add_to(CLI::App& command);
};

void RecordOptions::add_to(CLI::App& command) {
  // The topics are what is left: CLI11 would take "[a,b]" in a list of its own for two names.
  command.allow_extras();
  parsed = &command;
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
  add_domain(command, domain);
  add_json(command, json);
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
  for (std::size_t end = name.find('/', 1); end != std::string::npos;
       end = name.find('/', end + 1)) {
    const std::string folder = name.substr(0, end);
    if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
      throw Exit(kFailed,
                 "--output: " + shown(folder) + ": " + std::generic_category().message(errno));
  }
  return name;
}

RecorderOptions recorder_options(const RecordOptions& options) {
  std::vector<std::string> topics = words_of(*options.parsed);
  if (topics.empty() && options.regex.empty() && !options.all)
    throw CLI::ValidationError("TOPICS", "name topics, or give --all or --regex");
  const Compressions compressions = compressions_in(options.compress);
  RecorderOptions made{.path = {},
                       .topics = std::move(topics),
                       .all = options.all,
                       .pattern = options.regex,
                       .reliable = options.reliable,
                       .buffer_bytes = bytes_in("--buffer", options.buffer),
                       .overwrite = options.overwrite,
                       .compress = compressions.all,
                       .compress_topics = compressions.topics,
                       .domain = options.domain};
  if (options.split_size) made.split_bytes = bytes_in("--split-size", *options.split_size);
  if (options.split_duration)
    made.split_time = seconds_in("--split-duration", *options.split_duration);
  if (options.snapshot) made.snapshot_time = seconds_in("--snapshot", *options.snapshot);
  made.path = with_time(options.output);  // the last step: it makes folders
  return made;
}

void record(RecordOptions& options) {
  const RecorderOptions given = recorder_options(options);
  // Tensors of a GPU then arrive in main memory, copied by their owner.
  ::setenv("TENSORBUS_CUDA_DRIVER", "off", 1);
  std::optional<CaughtSignals> signals(std::in_place, std::vector{SIGUSR1});
  RunningRecorder recorder(options.name, given, options.json);
  print_line("recording to " + shown(given.path) + "; Ctrl-C ends it");
  std::optional<steady_clock::time_point> end;
  if (options.seconds >= 0) end = steady_clock::now() + nanoseconds_in(options.seconds);
  recorder.run(*signals, end);
  recorder.complete();
  std::signal(SIGUSR1, SIG_IGN);  // a snapshot is asked for too late
  signals.reset();                // perhaps nobody reads what is printed
  recorder.report();
}

}  // namespace

void add_record(CLI::App& all) {
  CLI::App& command = add_command(
      all, "record",
      "Record topics to a file, from the memory in which they were published.\n\n"
      "Without --reliable, no publisher waits for the recorder; messages that arrive faster "
      "than the disk writes are lost, and counted. After SIGINT, SIGTERM or SIGHUP the "
      "recorder completes the file and ends. The file can be read even if the recorder is "
      "killed. With --snapshot, it writes only after `tensorbus recorder snapshot` or "
      "SIGUSR1.",
      "tensorbus record camera/image pose -o run.mcap\n"
      "tensorbus record --all --seconds 60 -o run.mcap\n"
      "tensorbus record --regex 'camera/.*' --reliable -o run.mcap\n"
      "tensorbus record --all --compress zstd -o run.mcap\n"
      "tensorbus record camera/image pose --compress pose=lz4 -o run.mcap\n"
      "tensorbus record --all -o 'runs/{time}.mcap'",
      record);
  command.formatter(std::make_shared<Help>(" [TOPIC]..."));
}

}  // namespace tensorbus::cli
