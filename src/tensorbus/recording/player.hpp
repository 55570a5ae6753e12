#pragma once

#include <cstdint>
#include <tensorbus/values/played.hpp>

#include "tensorbus/bus/event_loop/fork_safe.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"
#include "tensorbus/recording/recording.hpp"

namespace tensorbus::recording {

// Publishes a recording, with the intervals of its messages (docs/recording.md). A player has a
// participant of its own and one thread. Tensors are lent from the mapped file. Thread-safe.
class TENSORBUS_API Player {
 public:
  // Makes the publishers and starts, unless paused. Throws Error(kInvalidArgument) that names the
  // option, or an invalid recorded type; Error as Publisher does. A clock replaces the one that was
  // recorded on its topic.
  Player(const Recording& recording, const PlayerOptions& options);
  Player(Player&&) noexcept;
  Player& operator=(Player&&) noexcept;
  ~Player();  // as close(), but drops its error

  void pause();
  void resume();
  // Pauses, and publishes `count` messages at once.
  void step(std::uint64_t count);
  void set_rate(double rate);
  // Waits until each topic has a subscriber.
  Outcome wait_for_subscribers(const platform::StopCondition& stop);
  // Waits until all was published or playing has failed: kDone, else kTimedOut or kInterrupted.
  Outcome wait(const platform::StopCondition& stop);
  PlayerStats stats() const;
  // Ends playing and closes the publishers. Throws the Error that ended playing; a second call does
  // nothing.
  void close();

 private:
  struct State;
  bus::ForkSafe<State> state_;
};

}  // namespace tensorbus::recording
