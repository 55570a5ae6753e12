#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "tensorbus/cli/commands.hpp"
#include "tensorbus/cli/json.hpp"
#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/topic/monitor.hpp"
#include "tensorbus/cli/topic/samples.hpp"

namespace tensorbus::cli {
namespace {

using std::chrono::steady_clock;

constexpr std::uint32_t kDepth = 64;                      // of the subscriber
constexpr std::size_t kMaxAtOnce = 1024;                  // more than its queue has
constexpr std::chrono::seconds kBridgePatience{2};        // it publishes its status every second
constexpr const char* kBridgeTopic = "tensorbus/bridge";  // of its status

struct DelayOptions : MonitorOptions {
  double window = 1.0;
  void add_to(CLI::App& command) {
    add_monitor_to(command);
    command.add_option("--window", window, "Seconds for each line.  [default: 1.0; x>=0.01]")
        ->option_text("S")
        ->check(seconds_from(0.01));
  }
};

// The ages of the samples that arrived in a window, in ns, by machine; "" is this one.
using Ages = std::map<std::string, std::vector<double>>;
// The common error that all ages of a machine may have, in ns; nothing: it is unknown.
using Uncertainties = std::map<std::string, std::optional<std::int64_t>>;

// Returns the peers in the next status of the bridge; none after a time. Any process can publish on
// this topic.
Value::List peers_of(Subscriber& bridge) {
  const auto end = steady_clock::now() + kBridgePatience;
  while (const auto status = bridge.receive(end - steady_clock::now())) try {
      const Value fields = status->fields();
      const Value* const peers = fields.find("peers");
      if (peers != nullptr && peers->is<Value::List>()) return peers->as<Value::List>();
    } catch (const Error&) {  // malformed
    }
  return {};
}

// Returns the uncertainty of each other machine's clock, by the newest status of the bridge.
Uncertainties clock_uncertainties(const std::string& domain) {
  Uncertainties found;
  Subscriber bridge(kBridgeTopic, {}, participant_of(domain));
  for (const Value& peer : peers_of(bridge)) {
    const Value* const machine = peer.find("machine");
    const Value* const error = peer.find("clock_uncertainty_ns");
    if (machine != nullptr && machine->is<std::string>() && error != nullptr &&
        error->is<std::int64_t>())
      found[machine->as<std::string>()] = error->as<std::int64_t>();
  }
  return found;
}

// Collects the ages of samples. Those that were published before the start, or that arrived between
// two windows, do not count: they have waited in a history or in the subscriber's queue.
class Windows {
 public:
  Windows(const DelayOptions& options, Monitor& monitor)
      : options_(options), monitor_(monitor), begin_(std::chrono::system_clock::now()) {}

  // Returns the next window in which samples have arrived.
  Ages next() {
    Ages ages;
    while (ages.empty()) {
      collect(ages);
      const std::chrono::duration<double> silence = steady_clock::now() - last_;
      if (ages.empty() && options_.timeout && silence.count() >= *options_.timeout)
        monitor_.fail_for_silence();
    }
    return ages;
  }

 private:
  void collect(Ages& ages) {
    (void)monitor_.subscriber().receive_many(kMaxAtOnce, std::chrono::nanoseconds::zero());
    const auto end = steady_clock::now() + nanoseconds_in(options_.window);
    while (true) {
      const auto left = end - steady_clock::now();
      if (left <= steady_clock::duration::zero()) return;
      const auto sample = monitor_.subscriber().receive(left);
      if (!sample) return;
      const SampleHeader header = sample->header();
      const auto age = age_of(header);
      if (std::chrono::nanoseconds(header.timestamp_ns) < begin_.time_since_epoch()) continue;
      last_ = steady_clock::now();
      ages[monitor_.machine_of(*sample)].push_back(static_cast<double>(age.count()));
    }
  }

  const DelayOptions& options_;
  Monitor& monitor_;
  const std::chrono::system_clock::time_point begin_;
  steady_clock::time_point last_ = steady_clock::now();
};

struct Delays {
  double min = 0;
  double mean = 0;
  double max = 0;
  double deviation = 0;
};

Delays delays_of(const std::vector<double>& ages) {
  const auto count = static_cast<double>(ages.size());
  Delays found{.min = *std::ranges::min_element(ages), .max = *std::ranges::max_element(ages)};
  found.mean = std::accumulate(ages.begin(), ages.end(), 0.0) / count;
  double squares = 0;
  for (const double age : ages) squares += (age - found.mean) * (age - found.mean);
  found.deviation = std::sqrt(squares / count);
  return found;
}

std::string milliseconds(std::optional<double> ns) {
  if (!ns) return "?";
  std::array<char, 48> text{};
  (void)std::snprintf(text.data(), text.size(), "%.3f", *ns / 1e6);
  return text.data();
}

void show(const DelayOptions& options, const Ages& ages, const Uncertainties& uncertainties) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  Table table{">SAMPLES", ">MIN MS", ">MEAN MS", ">MAX MS", ">STD MS", ">+- MS", "FROM"};
  for (const auto& [machine, all] : ages) {
    const Delays delays = delays_of(all);
    const auto known = uncertainties.find(machine);
    std::optional<std::int64_t> error;
    if (known != uncertainties.end()) error = known->second;
    if (machine.empty()) error = 0;
    if (options.json)
      Record("delay")
          .field("topic", options.topic)
          .field("time_ns", std::chrono::nanoseconds(now))
          .field("machine", machine)
          .field("samples", all.size())
          .field("min_ns", static_cast<std::int64_t>(delays.min))
          .field("mean_ns", delays.mean)
          .field("max_ns", static_cast<std::int64_t>(delays.max))
          .field("std_ns", delays.deviation)
          .json("clock_uncertainty_ns", error ? std::to_string(*error) : "null")
          .add();
    table.add({std::to_string(all.size()), milliseconds(delays.min), milliseconds(delays.mean),
               milliseconds(delays.max), milliseconds(delays.deviation),
               milliseconds(error ? std::optional(static_cast<double>(*error)) : std::nullopt),
               machine.empty() ? "here" : machine});
  }
  if (!options.json) table.print();
  flush();
}

void delay(DelayOptions& options) {
  Monitor monitor(options, kDepth);
  Windows windows(options, monitor);
  for (std::uint64_t shown = 0; !options.count || shown < *options.count; ++shown) {
    const Ages ages = windows.next();
    const bool has_others = ages.size() > 1 || !ages.begin()->first.empty();
    show(options, ages, has_others ? clock_uncertainties(options.domain) : Uncertainties{});
  }
}

}  // namespace

void add_delay(CLI::App& topic) {
  add_command(
      topic, "delay",
      "Show the time from publishing a sample to receiving it here.\n\nNo publisher waits for this "
      "command. For a sample of another machine, the bridge converts the time of publishing to "
      "this "
      "machine's clock; +- is the uncertainty of this conversion.",
      "tensorbus topic delay camera/image\n"
      "tensorbus topic delay camera/image --window 10 --count 1 --json",
      delay);
}

}  // namespace tensorbus::cli
