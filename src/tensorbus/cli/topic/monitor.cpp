#include "tensorbus/cli/topic/monitor.hpp"

#include <tensorbus/listing.hpp>

#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/texts.hpp"
#include "tensorbus/cli/values/value_text.hpp"

namespace tensorbus::cli {

void MonitorOptions::add_monitor_to(CLI::App& command) {
  command.add_option("TOPIC", topic, "The topic's name.")->check(is_name())->required();
  command.add_option("--count", count, "End after this many; by default after Ctrl-C.  [x>=1]")
      ->option_text("N")
      ->check(at_least_one());
  command.add_option("--timeout", timeout, "End after this many seconds without a sample.  [x>=0]")
      ->option_text("S")
      ->check(seconds_from(0));
  add_domain(command, domain);
  add_json(command, json);
}

Monitor::Monitor(const MonitorOptions& options, std::uint32_t depth)
    : options_(options),
      participant_(participant_of(options.domain)),
      subscriber_(options.topic, {.depth = depth, .reliable = false}, participant_) {
  if (!list_machines())
    print_error("topic " + shown(text_literal(options.topic)) + " has no publisher yet");
}

bool Monitor::list_machines() {
  bool has_publisher = false;
  for (const PublisherInfo& publisher : list_publishers(participant_))
    if (publisher.topic == options_.topic) {
      machines_[{publisher.participant, publisher.number}] = publisher.machine;
      has_publisher = true;
    }
  return has_publisher;
}

std::string Monitor::machine_of(const Sample& sample) {
  const SampleHeader header = sample.header();
  if (!header.origin) return "";
  const std::pair publisher(header.publisher, header.publisher_number);
  if (!machines_.contains(publisher)) (void)list_machines();
  return machines_.emplace(publisher, "?").first->second;
}

void Monitor::fail_for_silence() const {
  throw Exit(kFailed, "no sample on " + shown(text_literal(options_.topic)) + " in " +
                          short_number_text(*options_.timeout) + " s");
}

}  // namespace tensorbus::cli
