#include <algorithm>
#include <string>

#include "tensorbus/cli/commands.hpp"
#include "tensorbus/cli/json.hpp"
#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/served_queues.hpp"
#include "tensorbus/cli/texts.hpp"

namespace tensorbus::cli {
namespace {

void print_queue_record(const ParticipantReport& process, const QueueReport& queue) {
  using namespace std::string_view_literals;
  Record("queue")
      .field("queue", queue.name)
      .process(process)
      .fields(queue, "name"sv, "service"sv)
      .print();
}

void list_all_queues(Asking& asking) {
  const Inspection inspection = asking.inspect();
  Table table{"QUEUE", ">ITEMS",       ">BYTES",  ">IN HAND",
              ">LOST", ">REDELIVERED", "PROCESS", "MACHINE"};
  for (const auto& [process, queue] : queues_of(inspection)) {
    if (!queue->service.empty()) continue;
    if (asking.json) print_queue_record(*process, *queue);
    table.add({queue->name.empty() ? "-" : queue->name,
               part_text(queue->stats.items, queue->maxsize),
               bytes_text(static_cast<double>(queue->stats.bytes)), std::to_string(queue->in_hand),
               std::to_string(queue->stats.lost), std::to_string(queue->redelivered),
               process_name(*process), queue->machine});
  }
  if (!asking.json) table.print();
}

struct QueueOptions {
  Asking asking;
  std::string queue;
  void add_to(CLI::App& command) {
    command.add_option("QUEUE", queue, "The queue's name.")->check(is_name())->required();
    asking.add_to(command);
  }
};

void print_queue(const ParticipantReport& process, const QueueReport& queue) {
  const QueueStats& stats = queue.stats;
  print_pair("queue", queue.name);
  print_pair("  process",
             process_name(process) + (queue.machine.empty() ? "" : ", machine " + queue.machine));
  print_pair("  options",
             "maxsize " + (queue.maxsize != 0 ? std::to_string(queue.maxsize) : "unlimited") +
                 (queue.redeliver ? ", redeliver" : "") + (queue.shut_down ? ", shut_down" : ""));
  print_pair("  counters", "items " + std::to_string(stats.items) + " (" +
                               bytes_text(static_cast<double>(stats.bytes)) + "), in hand " +
                               std::to_string(queue.in_hand) + ", unfinished " +
                               std::to_string(stats.unfinished) + ", lost " +
                               std::to_string(stats.lost) + ", redelivered " +
                               std::to_string(queue.redelivered));
  if (queue.clients.empty()) return;
  Table table{"  USED BY", ">IN HAND", ">WAITING PUTS", ">WAITING GETS"};
  for (const QueueClientReport& each : queue.clients)
    table.add({"  " + process_name(each.client), std::to_string(each.in_hand),
               std::to_string(each.waiting_puts), std::to_string(each.waiting_gets)});
  table.print();
}

void show_queue(QueueOptions& options) {
  const Inspection inspection = options.asking.inspect();
  bool is_there = false;
  for (const auto& [process, queue] : queues_of(inspection)) {
    if (queue->name != options.queue) continue;
    is_there = true;
    (options.asking.json ? print_queue_record : print_queue)(*process, *queue);
  }
  if (is_there) return;
  const std::string name = "'" + shown(options.queue) + "'";
  const auto is_silent = [](const ParticipantReport& process) { return !process.error.empty(); };
  if (std::ranges::any_of(inspection.participants, is_silent))
    throw Exit(kFailed, "queue " + name + ": no process that replied has it");
  throw Exit(kFailed, "there is no queue " + name);
}

}  // namespace

void add_queue(CLI::App& all) {
  CLI::App& group = *all.add_subcommand(
      "queue", "Queues: the items that wait in them, and the processes that put and get.");
  group.require_subcommand(1);
  add_command(group, "list", "List the queues, including those without a name.",
              "tensorbus queue list", list_all_queues);
  add_command(group, "info", "Show a queue and the processes that use it.",
              "tensorbus queue info jobs", show_queue);
}

}  // namespace tensorbus::cli
