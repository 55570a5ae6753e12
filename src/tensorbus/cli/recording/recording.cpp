#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <map>
#include <string>
#include <system_error>
#include <tensorbus/recording.hpp>
#include <vector>

#include "tensorbus/cli/commands.hpp"
#include "tensorbus/cli/json.hpp"
#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/recording/opened.hpp"
#include "tensorbus/cli/texts.hpp"

namespace tensorbus::cli {
namespace {

struct RecordingOptions {
  std::string file;
  bool json = false;
  void add_to(CLI::App& command) {
    command.add_option("FILE", file, "A file that `tensorbus record` has written.")->required();
    add_json(command, json);
  }
};

// What the first lines of `recording info` show.
struct RecordingSummary {
  std::uint64_t file_bytes = 0;
  std::uint64_t start_ns = 0;  // of the first message, since 1970; 0: there is none
  std::uint64_t end_ns = 0;    // of the last
  std::uint64_t lost = 0;
};

// Returns a text about the file; "" for "".
std::string in_file(const std::string& file, const std::string& text) {
  return text.empty() ? "" : "file '" + file + "': " + text;
}

std::uint64_t bytes_of_file(const std::string& path) {
  struct stat found{};
  if (::stat(path.c_str(), &found) == 0) return static_cast<std::uint64_t>(found.st_size);
  throw Exit(kFailed, "[Errno " + std::to_string(errno) + "] " +
                          std::generic_category().message(errno) + ": '" + shown(path) + "'");
}

RecordingSummary summary_of(const Recording& recording, std::uint64_t file_bytes) {
  RecordingSummary summary{.file_bytes = file_bytes};
  if (recording.size() != 0) {
    summary.start_ns = recording.time_ns(0);
    summary.end_ns = recording.time_ns(recording.size() - 1);
  }
  for (const RecordedTopic& topic : recording.topics()) summary.lost += topic.lost;
  return summary;
}

double seconds_between(std::uint64_t begin_ns, std::uint64_t end_ns) {
  return static_cast<double>(static_cast<std::int64_t>(end_ns - begin_ns)) / 1e9;
}

// Returns the local time and how long the recording is.
std::string span_text(const RecordingSummary& summary) {
  const auto start = static_cast<std::time_t>(summary.start_ns / 1'000'000'000);
  std::tm local{};
  ::localtime_r(&start, &local);
  std::array<char, 32> date{};
  std::array<char, 32> duration{};
  (void)std::strftime(date.data(), date.size(), "%Y-%m-%d %H:%M:%S", &local);
  (void)std::snprintf(duration.data(), duration.size(), ", for %.3f s",
                      seconds_between(summary.start_ns, summary.end_ns));
  return std::string(date.data()) + duration.data();
}

void print_recording_records(const std::string& file, const Recording& recording,
                             const RecordingSummary& summary) {
  std::map<std::string, std::string> about;
  for (const char* name : {"domain", "format", "host", "reliable", "started", "version"})
    if (const std::string value = recording.about(name); !value.empty()) about[name] = value;
  Record("recording")
      .field("file", file)
      .field("bytes", summary.file_bytes)
      .field("start_ns", summary.start_ns)
      .field("end_ns", summary.end_ns)
      .field("messages", recording.size())
      .field("lost", summary.lost)
      .field("recovered", in_file(file, recording.recovered()))
      .field("damage", in_file(file, recording.damage()))
      .field("about", about)
      .print();
  for (const RecordedTopic& topic : recording.topics())
    Record("recorded_topic")
        .field("file", file)
        .field("topic", topic.name)
        .field("types", topic.types)
        .field("publishers", topic.publishers)
        .field("messages", topic.messages)
        .field("lost", topic.lost)
        .field("start_ns", topic.begin_ns)
        .field("end_ns", topic.end_ns)
        .print();
}

std::string rate_of(const RecordedTopic& topic) {
  if (topic.messages < 2) return "-";
  const double seconds = seconds_between(topic.begin_ns, topic.end_ns);
  return rate_text(seconds > 0 ? static_cast<double>(topic.messages - 1) / seconds : 0);
}

void print_topics(const Recording& recording) {
  Table table{"topic", "type", ">messages", ">rate Hz", ">lost", ">publishers"};
  for (const RecordedTopic& topic : recording.topics()) {
    std::vector<std::string> types;
    for (const std::string& type : topic.types) types.push_back(type.substr(0, type.find('\n')));
    table.add({topic.name, types.empty() ? "-" : joined(types), std::to_string(topic.messages),
               rate_of(topic), std::to_string(topic.lost), std::to_string(topic.publishers)});
  }
  table.print();
}

void show_recording(RecordingOptions& options) {
  const std::string& file = options.file;
  const std::uint64_t file_bytes = bytes_of_file(file);
  const Recording recording = opened(file);
  const RecordingSummary summary = summary_of(recording, file_bytes);
  if (options.json) return print_recording_records(file, recording, summary);
  const auto known = [&](const char* name) {
    const std::string value = recording.about(name);
    return value.empty() ? "?" : value;
  };
  print_pair("file", file + ", " + bytes_text(static_cast<double>(summary.file_bytes)));
  print_pair("start", recording.size() != 0 ? span_text(summary) : "-");
  print_pair("messages",
             std::to_string(recording.size()) + ", " + std::to_string(summary.lost) + " lost");
  print_pair("recorder", "tensorbus " + known("version") + " on " + known("host"));
  print_topics(recording);
  flush();
  for (const std::string& trouble : {recording.recovered(), recording.damage()})
    if (!trouble.empty()) print_error(shown(in_file(file, trouble)));
}

}  // namespace

void add_recording(CLI::App& all) {
  CLI::App& group =
      *all.add_subcommand("recording", "Show recordings, and make other files of them.");
  group.require_subcommand(1);
  add_command(group, "info",
              "Show the topics of a recording, their types, rates and lost messages.",
              "tensorbus recording info run.mcap", show_recording);
}

}  // namespace tensorbus::cli
