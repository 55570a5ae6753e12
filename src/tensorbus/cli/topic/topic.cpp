#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tensorbus/listing.hpp>
#include <utility>
#include <vector>

#include "tensorbus/cli/commands.hpp"
#include "tensorbus/cli/json.hpp"
#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/texts.hpp"
#include "tensorbus/cli/topic/rates.hpp"
#include "tensorbus/cli/topic/samples.hpp"

namespace tensorbus::cli {
namespace {

// What the directory lists, and how many subscribers the processes that replied have.
struct TopicRow {
  std::set<std::string> types;  // definitions
  std::vector<PublisherInfo> publishers;
  std::size_t subscribers = 0;
  std::set<std::string> machines;  // that publish it; "" is this machine
};

std::map<std::string, TopicRow> topic_rows(const std::vector<PublisherInfo>& publishers,
                                           const Inspection& found) {
  std::map<std::string, TopicRow> rows;
  for (const PublisherInfo& publisher : publishers) {
    TopicRow& row = rows[publisher.topic];
    if (!publisher.type.is_any()) row.types.insert(std::string(publisher.type.definition()));
    row.machines.insert(publisher.machine);
    row.publishers.push_back(publisher);
  }
  for (const ParticipantReport& process : found.participants)
    for (const SubscriberReport& subscriber : process.subscribers)
      ++rows[subscriber.topic].subscribers;
  return rows;
}

void print_topic_record(const std::string& topic, const TopicRow& row) {
  Record("topic")
      .field("topic", topic)
      .field("types", std::vector(row.types.begin(), row.types.end()))
      .field("publishers", row.publishers.size())
      .field("subscribers", row.subscribers)
      .field("machines", std::vector(row.machines.begin(), row.machines.end()))
      .print();
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

void list_all_topics(Asking& asking) {
  const std::vector<PublisherInfo> publishers = list_publishers(participant_of(asking.domain));
  Table table{"TOPIC", "TYPE", ">PUBLISHERS", ">SUBSCRIBERS", "MACHINES"};
  for (const auto& [topic, row] : topic_rows(publishers, asking.inspect())) {
    if (asking.json) {
      print_topic_record(topic, row);
      continue;
    }
    std::vector<std::string> names;
    for (const std::string& type : row.types) names.push_back(first_line(type));
    table.add({topic, joined(names), std::to_string(row.publishers.size()),
               std::to_string(row.subscribers), machines_text(row.machines)});
  }
  if (!asking.json) table.print();
}

struct TopicOptions {
  Asking asking;
  std::string topic;
  void add_to(CLI::App& command) {
    command.add_option("TOPIC", topic, "The topic's name.")->check(is_name())->required();
    asking.add_to(command);
  }
};

std::string state_of(const LinkReport& link) {
  if (link.cut_off) return "cut off";
  if (link.blocked.count() != 0) return "has blocked the publisher for " + time_text(link.blocked);
  return link.reliable ? "reliable" : "";
}

void print_publisher(const ParticipantReport& process, const PublisherReport& publisher) {
  const PublisherStats& stats = publisher.stats;
  std::string options =
      "depth " + std::to_string(publisher.depth) + ", history " + std::to_string(publisher.history);
  for (const auto& [is_set, name] :
       {std::pair(publisher.reliable, ", reliable"), std::pair(publisher.shared, ", shared"),
        std::pair(publisher.isolated, ", isolated")})
    if (is_set) options += name;
  print("\n");
  print_pair("publisher", process_name(process) +
                              (publisher.node.empty() ? "" : ", node " + publisher.node) +
                              (publisher.machine.empty() ? "" : ", machine " + publisher.machine));
  print_pair("  options", options);
  print_pair("  counters", "sent " + std::to_string(stats.sent) + " (" +
                               bytes_text(static_cast<double>(publisher.bytes_sent)) +
                               "), dropped " + std::to_string(dropped(stats)) + ", timed out " +
                               std::to_string(stats.timed_out));
  if (publisher.links.empty()) return;
  Table table{"  TO", "NODE", ">WAIT", ">HELD", ">BYTES", ">OLDEST", ">DROPPED", "STATE"};
  for (const LinkReport& link : publisher.links)
    table.add({"  " + process_name(link.subscriber), link.node, part_text(link.waiting, link.depth),
               part_text(link.held, link.max_held),
               bytes_text(static_cast<double>(link.held_bytes)), time_text(link.oldest_held),
               std::to_string(dropped(link)), state_of(link)});
  table.print();
}

void print_subscriber(const ParticipantReport& process, const SubscriberReport& subscriber) {
  const SubscriberStats& stats = subscriber.stats;
  print("\n");
  print_pair("subscriber",
             process_name(process) + (subscriber.node.empty() ? "" : ", node " + subscriber.node));
  print_pair("  counters", "received " + std::to_string(stats.received) + ", missed " +
                               std::to_string(stats.missed) + ", held " +
                               std::to_string(stats.held) + ", publishers " +
                               std::to_string(stats.publishers) + ", refused " +
                               std::to_string(stats.refused));
  if (!stats.last_refusal.empty()) print_pair("  last refusal", stats.last_refusal);
}

void print_definition(const std::string& definition) {
  std::size_t begin = 0;
  while (begin <= definition.size()) {
    const std::size_t end = std::min(definition.find('\n', begin), definition.size());
    const std::string line = definition.substr(begin, end - begin);
    if (begin == 0)
      print_pair("type", line);
    else
      print("  " + shown(line) + '\n');
    begin = end + 1;
  }
}

// Calls each with every publisher, or subscriber, of the topic.
void for_each_of(const std::string& topic, const Inspection& found, auto reports, auto each) {
  for (const ParticipantReport& process : found.participants)
    for (const auto& report : process.*reports)
      if (report.topic == topic) each(process, report);
}

void show_topic(TopicOptions& options) {
  const std::string& topic = options.topic;
  const Inspection found = options.asking.inspect();
  auto rows = topic_rows(list_publishers(participant_of(options.asking.domain)), found);
  std::vector<PublisherInfo> silent = rows[topic].publishers;
  bool is_there = !silent.empty() || rows[topic].subscribers != 0;
  for_each_of(topic, found, &ParticipantReport::publishers,
              [&](const ParticipantReport& process, const PublisherReport&) {
                is_there = true;
                std::erase_if(silent, [&](const PublisherInfo& each) {
                  return each.participant == process.participant;
                });
              });
  if (!is_there)
    throw Exit(kFailed, "topic '" + shown(topic) + "' has no publisher and no subscriber");
  if (options.asking.json) {
    print_topic_record(topic, rows[topic]);
    for_each_of(topic, found, &ParticipantReport::publishers, [](const auto& process, auto& each) {
      Record("publisher").process(process).fields(each).print();
    });
    for (const PublisherInfo& each : silent)
      Record("silent_publisher")
          .field("topic", each.topic)
          .field("node", each.node)
          .field("type", std::string(each.type.definition()))
          .field("fingerprint", each.type.fingerprint())
          .field("pid", each.pid)
          .field("participant", each.participant)
          .field("publisher", each.participant.hex() + '.' + std::to_string(each.number))
          .field("machine", each.machine)
          .print();
    for_each_of(topic, found, &ParticipantReport::subscribers, [](const auto& process, auto& each) {
      Record("subscriber").process(process).fields(each).print();
    });
    return;
  }
  std::set<std::string> types;
  for (const PublisherInfo& each : rows[topic].publishers)
    types.insert(each.type.is_any() ? "any" : std::string(each.type.definition()));
  for (const std::string& type : types) print_definition(type);
  for_each_of(topic, found, &ParticipantReport::publishers, print_publisher);
  for (const PublisherInfo& each : silent)
    print_pair("publisher", "process " + std::to_string(each.pid) + ", which did not reply");
  for_each_of(topic, found, &ParticipantReport::subscribers, print_subscriber);
}

}  // namespace

void add_topic(CLI::App& all) {
  CLI::App& group =
      *all.add_subcommand("topic", "Topics: their publishers, subscribers and rates.");
  group.require_subcommand(1);
  add_command(group, "list", "List the topics that have a publisher or a subscriber.",
              "tensorbus topic list --json | jq -r .topic", list_all_topics);
  add_command(group, "info",
              "Show the publishers and subscribers of a topic, and the samples that each holds.",
              "tensorbus topic info camera/image", show_topic);
  add_rates(group);
  add_echo(group);
  add_delay(group);
}

}  // namespace tensorbus::cli
