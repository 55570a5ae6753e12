#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tensorbus/listing.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "tensorbus/cli/commands.hpp"
#include "tensorbus/cli/json.hpp"
#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/texts.hpp"

namespace tensorbus::cli {
namespace {

struct NodeRow {
  NodeInfo node;
  std::string process;  // the name of its program; "": no reply, or on another machine
  std::set<std::string> publishes;
  std::set<std::string> subscribes;
};

// Returns a row for each node in the directory, also if its process did not reply.
std::vector<NodeRow> node_rows(Asking& asking) {
  const Participant participant = participant_of(asking.domain);
  std::map<std::pair<std::string, std::string>, std::set<std::string>> published;
  for (const PublisherInfo& each : list_publishers(participant)) {
    const std::string origin = each.origin.substr(0, each.origin.find('.'));
    published[{origin.empty() ? each.participant.hex() : origin, each.node}].insert(each.topic);
  }
  std::vector<NodeRow> rows;
  for (NodeInfo& node : list_nodes(participant))
    rows.push_back({node, "", published[{node.participant.hex(), node.name}], {}});
  std::ranges::sort(rows, {}, [](const NodeRow& row) {
    return std::tuple(row.node.name, row.node.machine, row.node.pid);
  });
  const Inspection found = asking.inspect();
  for (NodeRow& row : rows)
    for (const ParticipantReport& process : found.participants) {
      if (!row.node.machine.empty() || process.participant != row.node.participant) continue;
      row.process = process.process;
      for (const SubscriberReport& each : process.subscribers)
        if (each.node == row.node.name) row.subscribes.insert(each.topic);
    }
  return rows;
}

void print_node_record(const NodeRow& row) {
  Record("node")
      .field("node", row.node.name)
      .field("process", row.process)
      .field("pid", row.node.pid)
      .field("machine", row.node.machine)
      .field("publishes", std::vector(row.publishes.begin(), row.publishes.end()))
      .field("subscribes", std::vector(row.subscribes.begin(), row.subscribes.end()))
      .print();
}

void list_all_nodes(Asking& asking) {
  Table table{"NODE", ">PID", "PROCESS", "MACHINE", ">PUBLISHES", ">SUBSCRIBES"};
  for (const NodeRow& row : node_rows(asking)) {
    if (asking.json) print_node_record(row);
    table.add({row.node.name, row.node.pid != 0 ? std::to_string(row.node.pid) : "", row.process,
               row.node.machine, std::to_string(row.publishes.size()),
               std::to_string(row.subscribes.size())});
  }
  if (!asking.json) table.print();
}

struct NodeOptions {
  Asking asking;
  std::string node;
  void add_to(CLI::App& command) {
    command.add_option("NODE", node, "The node's name.")->check(is_name())->required();
    asking.add_to(command);
  }
};

void print_row(const NodeRow& row) {
  PeerName process{row.node.participant, row.node.pid, row.process};
  print_pair("node", row.node.name);
  print_pair("process",
             row.node.machine.empty() ? process_name(process) : "on " + row.node.machine);
  for (const std::string& topic : row.publishes) print_pair("publishes", topic);
  for (const std::string& topic : row.subscribes) print_pair("subscribes", topic);
}

void show_node(NodeOptions& options) {
  std::vector<NodeRow> rows = node_rows(options.asking);
  std::erase_if(rows, [&](const NodeRow& row) { return row.node.name != options.node; });
  if (rows.empty()) throw Exit(kFailed, "there is no node '" + shown(options.node) + "'");
  std::ranges::for_each(rows, options.asking.json ? print_node_record : print_row);
}

}  // namespace

void add_node(CLI::App& all) {
  CLI::App& group =
      *all.add_subcommand("node", "Nodes: where they run, and what they publish and subscribe to.");
  group.require_subcommand(1);
  add_command(group, "list",
              "List the nodes of this machine, and nodes of other machines that publish here.",
              "tensorbus node list", list_all_nodes);
  add_command(group, "info",
              "Show the topics of a node, once for each process that has a node of this name.",
              "tensorbus node info camera", show_node);
}

}  // namespace tensorbus::cli
