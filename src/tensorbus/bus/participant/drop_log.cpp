#include "tensorbus/bus/participant/drop_log.hpp"

#include <string>

namespace tensorbus::bus {
namespace {

using namespace std::chrono_literals;

constexpr auto kDelay = 1s;      // before the first drops of a publisher are logged
constexpr auto kInterval = 10s;  // before more drops are logged

}  // namespace

void DropLog::on_drops() { loop_.schedule(looking_, kDelay); }

// Logs for each link, while samples are dropped, the number of drops since the last time.
void DropLog::look() {
  const auto now = std::chrono::steady_clock::now();
  if (now < logged_until_)
    return loop_.schedule(looking_,
                          std::chrono::ceil<std::chrono::milliseconds>(logged_until_ - now));
  bool any = false;
  for (const auto& publisher : publishers_.living()) {
    const auto all = publisher->take_drops();
    for (const auto& dropped : all) write(*publisher, dropped);
    any = any || !all.empty();
  }
  if (!any) return;
  logged_until_ = now + kInterval;
  loop_.schedule(looking_, kInterval);
}

// The options allow drops from a full queue. All other drops are logged as warnings.
void DropLog::write(const Sender& publisher, const Sender::Dropped& dropped) {
  const auto& [link, drops] = dropped;
  const auto part = [](std::uint64_t count, const std::string& why) {
    return count == 0 ? std::string() : "; " + std::to_string(count) + " " + why;
  };
  const link::LinkLimits limits = link->limits();
  const bool expected = drops.held == 0 && drops.unsent == 0;
  log_.write(
      expected ? platform::LogLevel::kInfo : platform::LogLevel::kWarning, publisher.topic(),
      static_cast<pid_t>(link->borrower().pid),
      {"dropped ", std::to_string(drops.all()), " samples for its subscriber",
       part(drops.depth, "because its queue is full (depth=" + std::to_string(limits.depth) + ")"),
       part(drops.held,
            "because it holds max_held=" + std::to_string(limits.max_held) + " samples"),
       part(drops.unsent, "because there is no descriptor or memory to send them")});
}

}  // namespace tensorbus::bus
