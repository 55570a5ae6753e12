#include "tensorbus/cli/topic/rates.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <optional>
#include <tensorbus/listing.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "tensorbus/cli/commands.hpp"
#include "tensorbus/cli/json.hpp"
#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/texts.hpp"

namespace tensorbus::cli {
namespace {

struct RateOptions {
  Asking asking;
  std::optional<std::string> topic;  // none: all
  double window = 1.0;
  int count = 0;  // 0: until Ctrl-C

  void add_to(CLI::App& command) {
    command.add_option("TOPIC", topic, "The topic's name; by default all topics.")
        ->check(is_name());
    command.add_option("--window", window, "Seconds for each line.  [default: 1.0; x>=0.01]")
        ->option_text("S")
        ->check(seconds_from(0.01));
    command.add_option("--count", count, "End after this many; by default after Ctrl-C.  [x>=1]")
        ->option_text("N")
        ->check(CLI::Range(1, std::numeric_limits<int>::max()));
    asking.add_to(command);
  }
};

// The rates of a topic, summed over its publishers.
struct TopicRate {
  double hz = 0;
  double bytes_per_second = 0;
  double dropped_per_second = 0;  // summed over all subscribers
  std::size_t publishers = 0;
  std::set<std::string> machines;
};
using TopicRates = std::map<std::string, TopicRate>;

// Returns the rates between two inspections. The time between two reports of a process is the
// difference of its ages, because another process that does not reply delays an inspection.
TopicRates rates_between(const Inspection& before, const Inspection& after,
                         const std::optional<std::string>& topic) {
  using Found = std::pair<const ParticipantReport*, const PublisherReport*>;
  std::map<std::pair<Id, std::uint32_t>, Found> first;
  for (const ParticipantReport& process : before.participants)
    for (const PublisherReport& publisher : process.publishers)
      first[{process.participant, publisher.number}] = {&process, &publisher};
  TopicRates rates;
  for (const ParticipantReport& process : after.participants)
    for (const PublisherReport& publisher : process.publishers) {
      const auto found = first.find({process.participant, publisher.number});
      if (found == first.end() || (topic && publisher.topic != *topic)) continue;
      const auto& [earlier, was] = found->second;
      // At least 1 ns: a hostile process may report any age.
      const auto age = [](const ParticipantReport& report) {
        return std::chrono::duration<double>(report.age).count();
      };
      const double seconds = std::max(age(process) - age(*earlier), 1e-9);
      const auto per_second = [&](std::uint64_t now, std::uint64_t then) {
        return (static_cast<double>(now) - static_cast<double>(then)) / seconds;
      };
      TopicRate& rate = rates[publisher.topic];
      rate.hz += per_second(publisher.stats.sent, was->stats.sent);
      rate.bytes_per_second += per_second(publisher.bytes_sent, was->bytes_sent);
      rate.dropped_per_second += per_second(dropped(publisher.stats), dropped(was->stats));
      ++rate.publishers;
      rate.machines.insert(publisher.machine);
    }
  return rates;
}

bool is_published(const Inspection& found, const std::string& topic) {
  return std::ranges::any_of(found.participants, [&](const ParticipantReport& process) {
    return std::ranges::any_of(process.publishers, [&](const PublisherReport& publisher) {
      return publisher.topic == topic;
    });
  });
}

// The publisher of a listed topic may be in a process that is stopped.
void require_publisher(const std::string& topic, const std::string& domain) {
  const auto listed = list_publishers(participant_of(domain));
  if (std::ranges::find(listed, topic, &PublisherInfo::topic) == listed.end())
    throw Exit(kFailed, "topic '" + shown(topic) + "' has no publisher");
}

void print_rate_records(const TopicRates& rates) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  for (const auto& [topic, rate] : rates)
    Record("rate")
        .field("topic", topic)
        .field("time_ns", std::chrono::nanoseconds(now))
        .field("hz", rate.hz)
        .field("bytes_per_second", rate.bytes_per_second)
        .field("dropped_per_second", rate.dropped_per_second)
        .field("publishers", rate.publishers)
        .field("machines", std::vector(rate.machines.begin(), rate.machines.end()))
        .print();
}

void print_hz(const TopicRates& rates) {
  Table table{"TOPIC", ">HZ", ">DROPPED/S", ">PUBLISHERS", "MACHINES"};
  for (const auto& [topic, rate] : rates)
    table.add({topic, rate_text(rate.hz), rate_text(rate.dropped_per_second),
               std::to_string(rate.publishers), machines_text(rate.machines)});
  table.print();
}

void print_bw(const TopicRates& rates) {
  Table table{"TOPIC", ">BANDWIDTH", ">HZ", ">SAMPLE", "MACHINES"};
  for (const auto& [topic, rate] : rates)
    table.add({topic, bandwidth_text(rate.bytes_per_second), rate_text(rate.hz),
               rate.hz == 0 ? "-" : bytes_text(rate.bytes_per_second / rate.hz),
               machines_text(rate.machines)});
  table.print();
}

void show(RateOptions& options, void (*print_table)(const TopicRates&)) {
  Inspection before = options.asking.inspect();
  if (options.topic && !is_published(before, *options.topic))
    require_publisher(*options.topic, options.asking.domain);
  for (int i = 0; options.count == 0 || i < options.count; ++i) {
    std::this_thread::sleep_for(std::chrono::duration<double>(options.window));
    Inspection after = options.asking.inspect();
    const TopicRates rates = rates_between(before, after, options.topic);
    if (rates.empty() && options.topic) require_publisher(*options.topic, options.asking.domain);
    if (options.asking.json)
      print_rate_records(rates);
    else
      print_table(rates);
    flush();
    before = std::move(after);
  }
}

void hz(RateOptions& options) { show(options, print_hz); }
void bw(RateOptions& options) { show(options, print_bw); }

}  // namespace

std::string machines_text(const std::set<std::string>& machines) {
  if (machines.empty() || machines == std::set<std::string>{""}) return "";
  std::vector<std::string> names;
  for (const std::string& each : machines) names.push_back(each.empty() ? "here" : each);
  return joined(names);
}

void add_rates(CLI::App& topic) {
  add_command(topic, "hz", "Show how many samples a second are published.",
              "tensorbus topic hz                         all topics, once a second\n"
              "tensorbus topic hz camera/image --count 1 --window 5",
              hz);
  add_command(topic, "bw", "Show how many bytes a second are published, in tensors and fields.",
              "tensorbus topic bw                         all topics, once a second\n"
              "tensorbus topic bw camera/image --count 1 --json",
              bw);
}

}  // namespace tensorbus::cli
