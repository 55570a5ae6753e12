#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <string>
#include <tensorbus/client.hpp>
#include <tensorbus/internal/fields.hpp>
#include <utility>

#include "tensorbus/cli/commands.hpp"
#include "tensorbus/cli/json.hpp"
#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/recorder_replies.hpp"
#include "tensorbus/cli/texts.hpp"

namespace tensorbus::cli {
namespace {

// For list_fields().
struct ToMap {
  Value::Map map;
  void operator()(const char* name, const auto& value) { map.emplace_back(name, value); }
  void operator()(const char* name, std::uint32_t value) {
    map.emplace_back(name, std::uint64_t{value});
  }
};
struct FromMap {
  const Value& map;
  void operator()(const char* name, std::unsigned_integral auto& to) const {
    const Value* const found = map.find(name);
    if (found != nullptr && found->is<std::int64_t>() &&
        std::in_range<std::remove_reference_t<decltype(to)>>(found->as<std::int64_t>()))
      to = static_cast<std::remove_reference_t<decltype(to)>>(found->as<std::int64_t>());
  }
  void operator()(const char* name, std::string& to) const {
    const Value* const found = map.find(name);
    if (found != nullptr && found->is<std::string>()) to = found->as<std::string>();
  }
};

struct RecorderRequest {
  Asking asking;
  std::string name = kRecorderName;
  void add_to(CLI::App& command) {
    command.add_option("--name", name, "The --name of the recorder.")->option_text("NAME");
    asking.timeout = 60;  // the reply is sent when the snapshot is written
    asking.add_to(command);
  }

  // Returns the reply of the only recorder of this name.
  Value ask(const char* what) const {
    const std::chrono::duration<double> look(std::min(asking.timeout, 1.0));
    const auto found = tensorbus::inspect(
        asking.domain, std::chrono::duration_cast<std::chrono::nanoseconds>(look));
    std::size_t count = 0;
    for (const ParticipantReport& process : found.participants)
      count +=
          static_cast<std::size_t>(std::ranges::count(process.queues, name, &QueueReport::service));
    for (const ParticipantReport& process : found.participants)
      if (count == 0 && !process.error.empty())
        throw Exit(kFailed, process_name(process) + ": " + shown(process.error) +
                                ": it may be the `tensorbus record` with the name '" + shown(name) +
                                "'");
    if (count == 0)
      throw Exit(kFailed, "no `tensorbus record` with the name '" + shown(name) + "' is running");
    if (count > 1)
      throw Exit(kFailed, std::to_string(count) + " processes have the name '" + shown(name) +
                              "': give each its own --name");
    const std::chrono::duration<double> limit(asking.timeout);
    Client client(name, {.timeout = std::chrono::duration_cast<std::chrono::nanoseconds>(limit)},
                  participant_of(asking.domain));
    Value reply = client.call({Value::Map{{"do", what}}}).fields;
    if (!reply.contains("messages"))
      throw Exit(kFailed, "service '" + shown(name) +
                              "' is not offered by `tensorbus record`: its "
                              "reply has no 'messages'");
    return reply;
  }
};

std::string file_in(const Value& reply) {
  const Value* const file = reply.find("file");
  return file != nullptr && file->is<std::string>() ? file->as<std::string>() : "";
}

void print_reply(const Value& reply) {
  Record("recorder").field("file", file_in(reply)).fields(stats_in(reply)).print();
}

void snapshot(RecorderRequest& request) {
  const Value reply = request.ask("snapshot");
  if (request.asking.json) return print_reply(reply);
  print(shown(file_in(reply)) + '\n');
}

void show_recorder(RecorderRequest& request) {
  const Value reply = request.ask("status");
  if (request.asking.json) return print_reply(reply);
  const RecorderStats stats = stats_in(reply);
  print_pair("messages", std::to_string(stats.messages) + " in " + std::to_string(stats.files) +
                             " files, " + std::to_string(stats.lost) + " lost");
  print_pair("bytes", bytes_text(static_cast<double>(stats.bytes)) + ", " +
                          bytes_text(static_cast<double>(stats.buffered_bytes)) + " held");
  print_pair("topics", std::to_string(stats.topics));
}

}  // namespace

Value reply_of(const std::string& file, const RecorderStats& stats) {
  ToMap each{{{"file", file}}};
  internal::list_fields(each, stats);
  return std::move(each.map);
}

RecorderStats stats_in(const Value& reply) {
  RecorderStats stats;
  FromMap each{reply};
  internal::list_fields(each, stats);
  return stats;
}

void add_recorder(CLI::App& all) {
  CLI::App& group = *all.add_subcommand(
      "recorder", "Show the status of a running `tensorbus record`, or make it write a snapshot.");
  group.require_subcommand(1);
  add_command(
      group, "snapshot",
      "Write the messages that `tensorbus record --snapshot` keeps in memory to a new file.",
      snapshot);
  add_command(group, "status",
              "Show how many messages and bytes were written, and how many messages were lost.",
              show_recorder);
}

}  // namespace tensorbus::cli
