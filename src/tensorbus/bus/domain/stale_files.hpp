#pragma once

#include <chrono>
#include <map>
#include <tensorbus/values/id.hpp>

#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/bus/event_loop/event_loop.hpp"

namespace tensorbus::bus {

// Removes files of dead participants from the domain directory, a bounded number at a time. Used
// only on the event loop.
class StaleFiles {
 public:
  StaleFiles(EventLoop& loop, const Domain& domain);
  StaleFiles(const StaleFiles&) = delete;
  StaleFiles& operator=(const StaleFiles&) = delete;

  // Checks a participant whose connection has ended, or whose socket refuses connections. Checks
  // more than once, because a process that is being killed may close its listener after its
  // connections.
  void suspect(const Id& participant) { (void)enter(participant); }
  // As suspect(), and is_dead() returns true until the next check.
  void add_dead(const Id& participant) { enter(participant).refused = true; }
  bool is_dead(const Id& participant) const {
    const auto found = suspects_.find(participant);
    return found != suspects_.end() && found->second.refused;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Suspect {
    int looks = 0;  // checks that are left
    Clock::time_point next{};
    bool refused = false;  // its socket refused a connection at the last check
  };
  Suspect& enter(const Id& participant);
  void clear_up();

  EventLoop& loop_;
  const Domain& domain_;
  EventLoop::Task& clearing_up_;
  std::map<Id, Suspect> suspects_;
};

}  // namespace tensorbus::bus
