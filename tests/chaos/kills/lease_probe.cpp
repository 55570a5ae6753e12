#include "lease_probe.hpp"

#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "child.hpp"
#include "survivors.hpp"
#include "tensorbus/platform/clock.hpp"

namespace tensorbus::kills {
namespace {

constexpr std::int64_t kWords = 4000;
constexpr auto kLongest = 30s;  // then they never come

}  // namespace

LeaseProbe::LeaseProbe(const std::string& domain, Tally& tally)
    : domain_(domain),
      tally_(tally),
      participant_([&] {
        ParticipantOptions options = participant_options(domain);
        options.segment_bytes = std::size_t{8} << 20;  // one segment for ever
        return bus::make_participant(options);
      }()),
      publisher_(kHoardTopic, {.depth = kHoard}, participant_) {
  (void)publisher_.loan<std::uint64_t>({kWords});
}

void LeaseProbe::kill_one(Activity& activity, Role leaves, std::chrono::microseconds pause,
                          LeaseTimes& times) {
  activity.does("starting a victim to measure");
  Child victim({"hoarder", domain_, std::to_string(static_cast<int>(leaves))}, {.output = true});
  activity.does("waiting for its subscriber");
  while (publisher_.wait_for_subscribers(1, 1s) != Outcome::kDone) {
  }
  for (int i = 0; i < kHoard; ++i)
    (void)publisher_.publish(publisher_.loan<std::uint64_t>({kWords}));
  activity.does("waiting until it holds all");
  char byte = 0;
  while (::read(victim.output(), &byte, 1) < 0) {
  }
  std::this_thread::sleep_for(pause);
  if (participant_->memory_use().used_bytes == 0)
    tally_.complain("nothing is leased that was measured");

  const auto kill = platform::Clock::now();
  victim.signal(SIGKILL);
  activity.does("waiting for the death");
  victim.wait_for_death();
  (void)victim.reap();
  // A child may read what its parent held, so that nothing is back before its end, too.
  const bool left_one = leaves == Role::kForks || leaves == Role::kClones;
  if (left_one && participant_->memory_use().used_bytes == 0)
    tally_.complain("leases came back though a child of the dead lives");
  const int orphans = victim.end_orphans();
  const auto death = platform::Clock::now();
  activity.does("waiting for the leases");
  while (participant_->memory_use().used_bytes != 0) {
    if (platform::Clock::now() - death > kLongest) {
      tally_.complain("leases of the dead did not come back");
      break;
    }
    std::this_thread::sleep_for(20us);
  }
  const auto back = platform::Clock::now();
  times.since_death.push_back(back - death);
  times.since_kill.push_back(back - kill);
  if (orphans != (left_one ? 1 : 0))
    tally_.complain("a measured victim left " + std::to_string(orphans) + " children");
  activity.does("waiting until it is forgotten");
  while (publisher_.subscribers() != 0) std::this_thread::sleep_for(1ms);
}

void LeaseProbe::add_to(Report& report) const {
  bus::Subscriber("idle", {}, participant_).close();
  const PublisherStats stats = publisher_.stats();
  const ArenaUse use = participant_->memory_use();
  report.must_stay["who is measured: subscribers"] = stats.subscribers;
  report.must_stay["who is measured: bytes in flight"] = stats.bytes_in_flight;
  report.must_stay["who is measured: arena bytes"] = use.used_bytes;
  report.totals["segments of its own"] += use.segments;
  report.participants.push_back(participant_->id().hex());
}

}  // namespace tensorbus::kills
