#include <string>

#include "tensorbus/cli/commands.hpp"
#include "tensorbus/cli/json.hpp"
#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/texts.hpp"

namespace tensorbus::cli {
namespace {

void show_processes(Asking& asking) {
  const Inspection found = asking.inspect();
  if (asking.json) {
    Record("domain").field("domain", found.domain).field("time_ns", found.time_ns).print();
    for (const ParticipantReport& process : found.participants)
      Record("process").fields(process).print();
    return;
  }
  Table table{"PROCESS", "VERSION", ">AGE",    ">PUBLISHERS", ">SUBSCRIBERS",
              ">QUEUES", ">SHARES", ">MEMORY", "NODES"};
  for (const ParticipantReport& process : found.participants) {
    const bool replied = process.error.empty();
    table.add({process_name(process), replied ? process.version : "no answer",
               time_text(process.age), std::to_string(process.publishers.size()),
               std::to_string(process.subscribers.size()), std::to_string(process.queues.size()),
               std::to_string(process.shares.size()),
               replied ? bytes_text(static_cast<double>(process.memory.used_bytes)) : "-",
               joined(process.nodes)});
  }
  table.print();
}

}  // namespace

void add_inspect(CLI::App& all) {
  add_command(all, "inspect",
              "Show the processes of the domain; with --json, all that inspect() returns.",
              "tensorbus inspect\n"
              "tensorbus inspect --json | jq 'select(.kind == \"process\").pid'",
              show_processes);
}

}  // namespace tensorbus::cli
