#pragma once

#include <chrono>
#include <map>
#include <tensorbus/id.hpp>

#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/bus/event_loop/event_loop.hpp"

namespace tensorbus::bus {

// Removes what participants that died have left in the domain directory, a bounded number at a
// time. On the event loop.
class StaleFiles {
 public:
  StaleFiles(EventLoop& loop, const Domain& domain);
  StaleFiles(const StaleFiles&) = delete;
  StaleFiles& operator=(const StaleFiles&) = delete;

  // Its connection has ended, or nobody listens at its socket. The listener of one that is being
  // killed may close after its connections, so we look more than once.
  void suspect(const Id& participant) { (void)enter(participant); }
  // The same, and until the next look it is dead to those who would ask again.
  void add_dead(const Id& participant) { enter(participant).refused = true; }
  bool is_dead(const Id& participant) const {
    const auto found = suspects_.find(participant);
    return found != suspects_.end() && found->second.refused;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Suspect {
    int looks = 0;  // that are left
    Clock::time_point next{};
    bool refused = false;  // a connection, when it was last looked at
  };
  Suspect& enter(const Id& participant);
  void clear_up();

  EventLoop& loop_;
  const Domain& domain_;
  EventLoop::Task& clearing_up_;
  std::map<Id, Suspect> suspects_;
};

}  // namespace tensorbus::bus
