#pragma once

#include <tensorbus/c/player.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/internal/from_c.hpp>
#include <tensorbus/internal/tensors.hpp>
#include <tensorbus/recording.hpp>
#include <tensorbus/values/outcome.hpp>
#include <tensorbus/values/played.hpp>
#include <vector>

namespace tensorbus::inline v0 {

// Publishes the messages of a recording at the intervals at which they were recorded
// (docs/recording.md). Its publishers have the options of the recorded publishers. They lend the
// tensors in the mapped file by reference. A player has a participant of its own and one thread.
// Thread-safe.
//
//   tensorbus::Player player(tensorbus::Recording("run.mcap"), {.paused = true});
//   player.wait_for_subscribers();
//   player.resume();
//   player.wait();
class Player {
 public:
  // Makes the publishers and starts, unless paused. The recording need not outlive this call.
  // Throws Error(kInvalidArgument) for an invalid option or recorded type, which the text names;
  // Error(kUnsupported) for a device that cannot be used here; and what Publisher throws.
  explicit Player(const Recording& recording, const PlayerOptions& options = {})
      : player_(made(recording, options)) {}

  // Stops before the next message.
  void pause() { internal::require_done(tb_player_pause(alive())); }
  void resume() { internal::require_done(tb_player_resume(alive())); }
  // Pauses, and publishes `count` messages at once.
  void step(std::uint64_t count = 1) { internal::require_done(tb_player_step(alive(), count)); }
  // Throws Error(kInvalidArgument) unless the rate is above 0.
  void set_rate(double rate) { internal::require_done(tb_player_set_rate(alive(), rate)); }
  // Waits until each topic has a subscriber. Returns kDone, kTimedOut or kInterrupted.
  Outcome wait_for_subscribers(std::chrono::nanoseconds timeout = std::chrono::nanoseconds::max(),
                               const GiveUp& give_up = {}) {
    const internal::Asked asked(give_up);
    return internal::outcome_of(
        asked.ended(tb_player_wait_for_subscribers(alive(), timeout.count(), asked.get())));
  }
  // Waits until all messages were published or playing has failed; close() throws the error.
  // Returns kDone, kTimedOut or kInterrupted.
  Outcome wait(std::chrono::nanoseconds timeout = std::chrono::nanoseconds::max(),
               const GiveUp& give_up = {}) {
    const internal::Asked asked(give_up);
    return internal::outcome_of(asked.ended(tb_player_wait(alive(), timeout.count(), asked.get())));
  }
  PlayerStats stats() const {
    tb_player_stats given = TB_PLAYER_STATS_INIT;
    internal::require_done(tb_player_get_stats(alive(), &given));
    std::array<char, 8192> error{};
    internal::require_done(tb_player_last_error(alive(), error.data(), error.size()));
    auto stats = internal::from_c<PlayerStats>(given);
    stats.error = error.data();
    return stats;
  }
  // Ends playing and closes the publishers; samples stay valid. Throws the Error that ended
  // playing; a second call does nothing.
  void close() { internal::require_done(tb_player_close(alive())); }

 private:
  using Owned = internal::Owned<tb_player, tb_player_destroy>;

  static Owned made(const Recording& recording, const PlayerOptions& options) {
    constexpr const char* kTopic = "the name of a topic";
    std::vector<const char*> topics, renamed, new_names;
    for (const std::string& topic : options.topics)
      topics.push_back(internal::c_text(topic, kTopic));
    for (const auto& [recorded, name] : options.remap) {
      renamed.push_back(internal::c_text(recorded, kTopic));
      new_names.push_back(internal::c_text(name, kTopic));
    }
    tb_player_options given = TB_PLAYER_OPTIONS_INIT;
    given.loop = options.loop ? 1 : 0;
    given.topics = topics.data();
    given.topic_count = topics.size();
    given.renamed = renamed.data();
    given.new_names = new_names.data();
    given.renamed_count = renamed.size();
    given.rate = options.rate;
    given.begin_ns = options.begin_ns;
    given.end_ns = options.end_ns;
    given.paused = options.paused ? 1 : 0;
    given.restores = options.device ? 1 : 0;
    given.device = internal::number_of(options.device.value_or(Device::cuda(0)));
    given.clock = internal::c_text_or_null(options.clock, "the name of the clock");
    given.domain = internal::c_text_or_null(options.domain, "the domain");
    return internal::created<Owned>(
        [&](tb_player** player) { return tb_player_create(recording.alive(), &given, player); });
  }
  tb_player* alive() const { return internal::living(player_, "player"); }

  Owned player_;
};

}  // namespace tensorbus::inline v0
