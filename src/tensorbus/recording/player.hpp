#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tensorbus/bus/event_loop/fork_safe.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"
#include "tensorbus/recording/recording.hpp"

namespace tensorbus {

struct PlayerOptions {
  std::vector<std::string> topics{};           // as recorded; none: all
  std::map<std::string, std::string> remap{};  // from the recorded name to another
  double rate = 1.0;                           // of recorded time, in that of this machine
  bool loop = false;
  bool paused = false;                // at the beginning
  std::uint64_t begin_ns = 0;         // of the messages recorded from then on, ns since 1970
  std::uint64_t end_ns = UINT64_MAX;  // and before then
  std::string clock{};                // a topic on which it says what time it is; empty: none
  std::string domain{};
};

struct PlayerStats {
  std::uint64_t messages = 0;      // published
  std::uint64_t left = 0;          // to be published, in this turn of a loop
  std::uint64_t loops = 0;         // that are over
  std::uint64_t unreadable = 0;    // left out, because they are damaged
  std::uint64_t bytes_copied = 0;  // of tensors: of files whose tensors are not aligned
  std::uint64_t position_ns = 0;   // recorded time, ns since 1970
  std::uint64_t latest_ns = 0;     // by which a message was late, at most
  std::uint64_t late_ns = 0;       // the sum over all messages
  double rate = 1.0;
  bool paused = false;
  bool ended = false;
  std::string error{};  // of the first message that could not be read, or for which it ended
};

// Publishes a recording, with the intervals of its messages (docs/recording.md). It is a
// participant of its own, with one thread. Tensors are lent from the mapped file. Thread-safe.
class TENSORBUS_API Player {
 public:
  // Makes the publishers, and begins, unless it is paused. Throws Error(kInvalidArgument) that
  // names the option, or a recorded type that is none; Error as Publisher.
  Player(const Recording& recording, const PlayerOptions& options);
  Player(Player&&) noexcept;
  Player& operator=(Player&&) noexcept;
  ~Player();  // close(), without its error

  void pause();
  void resume();
  // Pauses, and publishes so many messages at once.
  void step(std::uint64_t count);
  void set_rate(double rate);
  // Waits until each topic has a subscriber.
  Outcome wait_for_subscribers(const platform::StopCondition& stop);
  // Waits until all was published, or playing has failed: kDone; or kTimedOut, kInterrupted.
  Outcome wait(const platform::StopCondition& stop);
  PlayerStats stats() const;
  // Ends playing, and the publishers. Throws the Error for which it has ended; the second call
  // does nothing.
  void close();

 private:
  struct State;
  bus::ForkSafe<State> state_;
};

}  // namespace tensorbus
