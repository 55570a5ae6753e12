#include <string>

#include "tensorbus/cli/commands.hpp"
#include "tensorbus/cli/json.hpp"
#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/recording/running_recorder.hpp"
#include "tensorbus/cli/service/replies.hpp"
#include "tensorbus/cli/service/requests.hpp"
#include "tensorbus/cli/texts.hpp"

namespace tensorbus::cli {
namespace {

struct RecorderRequest {
  Asking asking;
  std::string name = kRecorderName;
  void add_to(CLI::App& command) {
    command.add_option("--name", name, "The --name of the recorder.")->option_text("NAME");
    asking.timeout = 60;  // the reply is sent when the snapshot is written
    asking.add_to(command);
  }

  Value ask(const char* what) const {
    return cli::ask({"tensorbus record", "messages", name}, asking, {{"do", what}});
  }
};

void print_reply(const Value& reply) {
  Record("recorder").field("file", file_in(reply)).fields(stats_in<RecorderStats>(reply)).print();
}

void snapshot(RecorderRequest& request) {
  const Value reply = request.ask("snapshot");
  if (request.asking.json) return print_reply(reply);
  print(shown(file_in(reply)) + '\n');
}

void show_recorder(RecorderRequest& request) {
  const Value reply = request.ask("status");
  if (request.asking.json) return print_reply(reply);
  const auto stats = stats_in<RecorderStats>(reply);
  print_pair("messages", std::to_string(stats.messages) + " in " + std::to_string(stats.files) +
                             " files, " + std::to_string(stats.lost) + " lost");
  print_pair("bytes", bytes_text(static_cast<double>(stats.bytes)) + ", " +
                          bytes_text(static_cast<double>(stats.buffered_bytes)) + " held");
  print_pair("topics", std::to_string(stats.topics));
}

}  // namespace

void add_recorder(CLI::App& all) {
  CLI::App& group = *all.add_subcommand(
      "recorder", "Show the status of a running `tensorbus record`, or make it write a snapshot.");
  group.require_subcommand(1);
  add_command(
      group, "snapshot",
      "Write the messages that `tensorbus record --snapshot` keeps in memory to a new file.",
      "tensorbus recorder snapshot", snapshot);
  add_command(group, "status",
              "Show how many messages and bytes were written, and how many messages were lost.",
              "tensorbus recorder status --json", show_recorder);
}

}  // namespace tensorbus::cli
