#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <tensorbus/participant.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/subscriber.hpp>
#include <tensorbus/values/id.hpp>
#include <utility>

#include "tensorbus/cli/commands.hpp"

namespace tensorbus::cli {

// Which samples `echo` and `delay` show.
struct MonitorOptions {
  std::string topic;
  std::optional<std::uint64_t> count;
  std::optional<double> timeout;  // seconds without a sample
  std::string domain;
  bool json = false;

  void add_monitor_to(CLI::App& command);
};

// A subscriber for which no publisher waits. The topic may be published later: then a line on
// standard error says so.
class Monitor {
 public:
  Monitor(const MonitorOptions& options, std::uint32_t depth);

  Subscriber& subscriber() { return subscriber_; }
  // Returns the machine that published the sample: "" for this one, "replay:FILE" for a recording,
  // "?" if its publisher here had ended before it was listed.
  std::string machine_of(const Sample& sample);
  // Throws Exit: no sample has arrived in time.
  [[noreturn]] void fail_for_silence() const;

 private:
  bool list_machines();  // returns whether the topic has a publisher

  const MonitorOptions& options_;
  const Participant participant_;
  Subscriber subscriber_;
  std::map<std::pair<Id, std::uint32_t>, std::string> machines_;  // of publishers
};

}  // namespace tensorbus::cli
