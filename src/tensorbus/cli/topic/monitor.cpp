#include "tensorbus/cli/topic/monitor.hpp"

#include <algorithm>
#include <tensorbus/listing.hpp>
#include <vector>

#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/texts.hpp"
#include "tensorbus/cli/values/value_text.hpp"

namespace tensorbus::cli {

void MonitorOptions::add_to(CLI::App& command) {
  command.add_option("TOPIC", topic, "The topic's name.")->required();
  command.add_option("--count", count, "End after this many; by default after Ctrl-C.  [x>=1]")
      ->option_text("N")
      ->check(CLI::PositiveNumber);
  command.add_option("--timeout", timeout, "End after this many seconds without a sample.  [x>=0]")
      ->option_text("S")
      ->check(seconds_from(0));
  command.add_option("--domain", domain, "A name or a path in place of $TENSORBUS_DOMAIN.")
      ->option_text("TEXT");
  command.add_flag("--json", json, "Print JSON, one object on each line.");
}

Monitor::Monitor(const MonitorOptions& options, std::uint32_t depth)
    : options_(options),
      participant_(participant_of(options.domain)),
      subscriber_(options.topic, {.depth = depth, .reliable = false}, participant_) {
  const std::vector<PublisherInfo> publishers = list_publishers(participant_);
  if (std::ranges::find(publishers, options.topic, &PublisherInfo::topic) == publishers.end())
    print_error("topic " + shown(text_literal(options.topic)) + " has no publisher yet");
}

std::string Monitor::machine_of(const Sample& sample) {
  const SampleHeader header = sample.header();
  if (!header.origin) return "";
  const std::pair publisher(header.publisher, header.publisher_number);
  const auto known = machines_.find(publisher);
  if (known != machines_.end()) return known->second;
  for (const PublisherInfo& found : list_publishers(participant_))
    if (found.participant == header.publisher && found.number == header.publisher_number)
      return machines_[publisher] = found.machine;
  return "?";  // the bridge has ended meanwhile
}

void Monitor::fail_for_silence() const {
  throw Exit(kFailed, "no sample on " + shown(text_literal(options_.topic)) + " in " +
                          short_number_text(*options_.timeout) + " s");
}

}  // namespace tensorbus::cli
