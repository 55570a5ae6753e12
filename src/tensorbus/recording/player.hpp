#pragma once

#include <cstdint>
#include <tensorbus/values/played.hpp>

#include "tensorbus/bus/event_loop/fork_safe.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"
#include "tensorbus/recording/recording.hpp"

namespace tensorbus::recording {

// Publishes the messages of a recording at their intervals (docs/recording.md). A player has a
// participant of its own and one thread. Tensors in the mapped file are lent by reference.
// Thread-safe.
class TENSORBUS_API Player {
 public:
  // Makes the publishers and starts, unless paused. Throws Error(kInvalidArgument) for an invalid
  // option or recorded type, which the text names, and what Publisher throws. The player's clock
  // replaces a clock that was recorded on its topic.
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
  // Waits until all messages were published or playing has failed. Returns kDone, kTimedOut or
  // kInterrupted.
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
