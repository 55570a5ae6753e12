#include "tensorbus/recording/player.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "tensorbus/bus/participant/participant.hpp"
#include "tensorbus/bus/subscribe/sample_data.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/platform/threads/background_thread.hpp"
#include "tensorbus/platform/waiting/timer_slack.hpp"
#include "tensorbus/recording/play/play_time.hpp"
#include "tensorbus/recording/play/recorded_clock.hpp"
#include "tensorbus/recording/record/record_progress.hpp"
#include "tensorbus/recording/replayed_channel.hpp"

namespace tensorbus::recording {
namespace {

using platform::Clock;

constexpr std::chrono::milliseconds kClockPeriod{10};
constexpr std::chrono::nanoseconds kLoneGap = std::chrono::seconds(1);
constexpr std::chrono::nanoseconds kUntilWoken = std::chrono::nanoseconds::max();

double checked_rate(double rate) {
  if (!(rate > 0) || !std::isfinite(rate))
    throw Error(Code::kInvalidArgument,
                "rate=" + std::to_string(rate) + ": expected a number above 0");
  return rate;
}

void require_recorded(const Recording& recording, const PlayerOptions& options) {
  std::set<std::string> known;
  for (const auto& [id, channel] : recording.contents().channels) known.insert(channel.topic);
  const auto require = [&](const std::string& topic, const char* option) {
    if (!known.contains(topic))
      throw Error(Code::kInvalidArgument,
                  std::string(option) + ": nothing was recorded on topic '" + topic + "'");
  };
  for (const std::string& topic : options.topics) require(topic, "topics");
  for (const auto& [topic, other] : options.remap) require(topic, "remap");
}

}  // namespace

struct Player::State {
  static constexpr const char* kMovedFrom = "this player was moved from";

  State(const Recording& file, const PlayerOptions& options)
      : recording(file),
        participant(bus::make_participant({.domain = options.domain})),
        loops(options.loop),
        device(options.device && !options.device->is_host() ? options.device : std::nullopt),
        time(checked_rate(options.rate)),
        paused(options.paused) {
    require_recorded(recording, options);
    if (device) bus::DeviceCopier::require(*device);
    order = recording.select(options.topics, options.begin_ns, options.end_ns);
    if (!options.clock.empty()) leave_out_recorded_clock(recording, options, order);
    make_publishers(options);
    if (!options.clock.empty())
      clock.emplace(options.clock, PublisherOptions{.history = 1}, participant);
    start();
  }
  ~State() { end(); }

  void make_publishers(const PlayerOptions& options) {
    const tensor::mcap::Contents& contents = recording.contents();
    for (const std::uint32_t number : order) {
      const std::uint16_t id = contents.messages[number].channel;
      if (channels.contains(id)) continue;
      const tensor::mcap::Channel& channel = contents.channels.at(id);
      const auto schema = contents.schemas.find(channel.schema);
      const bool has_type =
          schema != contents.schemas.end() && schema->second.encoding == tensor::mcap::kEncoding;
      channels[id] = std::make_unique<ReplayedChannel>(
          channel, has_type ? schema->second.definition : std::string(),
          played_name(channel.topic, options), recording.file().path(), first_sequence(number),
          participant);
    }
  }
  std::uint64_t first_sequence(std::uint32_t number) const {
    try {
      return recording.sample(number).header().sequence;
    } catch (const Error&) {
      return 0;  // playing it reports the error
    }
  }

  void start() {
    {
      const platform::MutexLock lock(mutex);
      position = order.empty() ? 0 : log_time(0);
      time.start(position, Clock::now());
    }
    progress->begin_thread();
    const auto run = [this, shared = progress] {
      try {
        platform::with_memory_errors([this] { play(); });
      } catch (const Error& error) {
        shared->fail(error);
      }
      ended.store(1, std::memory_order_release);  // pairs with has_ended()
      platform::futex_wake_all(ended);
      shared->end_thread();  // the player may be gone afterwards
    };
    try {
      platform::start_background_thread("player: starting the thread that publishes", run);
    } catch (...) {
      progress->end_thread();
      throw;
    }
  }

  // Used by the player's thread.
  struct Turn {
    enum class What { kMessage, kClock, kEnd } what;
    std::uint32_t number = 0;    // of the message
    std::uint32_t commands = 0;  // number of commands so far
  };
  using What = Turn::What;

  void play() {
    platform::wake_this_thread_on_time();
    for (Turn turn = next_turn(); turn.what != What::kEnd; turn = next_turn()) {
      if (turn.what == What::kMessage)
        publish(turn);
      else
        publish_clock();
    }
    if (clock) publish_clock();
  }

  Turn next_turn() {
    const platform::MutexLock lock(mutex);
    for (;;) {
      if (closed || (next == order.size() && !rewind())) return {What::kEnd};
      const auto now = Clock::now();
      if (clock && now >= clock_due) return {What::kClock};
      const Turn message{What::kMessage, order[next], commands.load(std::memory_order_relaxed)};
      if (paused && steps > 0) return message;
      const auto due = paused ? Clock::time_point::max() : time.due(log_time(next));
      if (!paused && now >= due) {
        note_late(due, now);
        return message;
      }
      const auto until = clock ? std::min(due, clock_due) : due;
      park(until == Clock::time_point::max() ? kUntilWoken : until - now);
    }
  }
  void park(std::chrono::nanoseconds most) TB_REQUIRES(mutex) {
    const std::uint32_t seen = commands.load(std::memory_order_relaxed);  // under the mutex
    const platform::MutexUnlock unlock(mutex);
    (void)platform::futex_wait(commands, seen, most);
  }
  void note_late(Clock::time_point due, Clock::time_point now) TB_REQUIRES(mutex) {
    const auto late = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(now - due).count());
    stats.late_ns += late;
    stats.latest_ns = std::max(stats.latest_ns, late);
  }

  // Starts the next loop. It follows the last message at the average interval between messages.
  bool rewind() TB_REQUIRES(mutex) {
    if (!loops || std::exchange(before_turn, stats.messages) == stats.messages) return false;
    const std::uint64_t first = log_time(0);
    const std::uint64_t last = log_time(order.size() - 1);
    const std::uint64_t gap =
        order.size() == 1 ? kLoneGap.count() : (last - first) / (order.size() - 1);
    const auto at = time.due(last + std::max<std::uint64_t>(gap, 1));
    time.start(first, paused ? Clock::now() : at);
    position = first;
    next = 0;
    ++stats.loops;
    return true;
  }

  void publish(const Turn& turn) {
    std::optional<bus::Sample> sample;
    try {
      sample = recording.sample(turn.number);
    } catch (const Error& error) {
      return pass_over(error);
    }
    if (device) bus::SampleData::put_on_device(*sample, participant->copier(), *device);
    // A command ends the wait for room; next_turn() then decides again.
    const auto stop = platform::StopCondition::ignoring_signals(kUntilWoken, [&] {
      return commands.load(std::memory_order_acquire) != turn.commands;  // pairs with command()
    });
    const std::uint16_t channel = recording.contents().messages[turn.number].channel;
    if (channels.at(channel)->publish(*sample, stop).outcome == Outcome::kDone) advance();
  }
  void pass_over(const Error& error) {
    const platform::MutexLock lock(mutex);
    ++stats.unreadable;
    if (stats.error.empty()) stats.error = error.what();
    ++next;
  }
  void advance() {
    const platform::MutexLock lock(mutex);
    ++stats.messages;
    position = log_time(next++);
    if (!paused || steps == 0) return;
    --steps;
    clock_due = {};  // the time has changed
  }

  void publish_clock() {
    std::int64_t now = 0;
    double rate = 0;
    bool stands = false;
    {
      const platform::MutexLock lock(mutex);
      clock_due = Clock::now() + kClockPeriod;
      now = static_cast<std::int64_t>(recorded_now());
      rate = time.rate();
      stands = paused;
    }
    (void)clock->publish(Value::Map{{"time_ns", now}, {"rate", rate}, {"paused", stands}}, {});
  }
  std::uint64_t recorded_now() const TB_REQUIRES(mutex) {
    if (paused || next == order.size()) return position;
    // The time stops at a late message, for example while a subscriber has no room.
    return std::max(position, std::min(time.at(Clock::now()), log_time(next)));
  }

  // Called in any thread.
  template <typename Change>
  void command(Change change) {
    {
      const platform::MutexLock lock(mutex);
      change();
      clock_due = {};
      commands.fetch_add(1, std::memory_order_release);  // pairs with publish()
    }
    platform::futex_wake_all(commands);
  }
  void pause() TB_REQUIRES(mutex) {
    if (paused) return;
    position = recorded_now();
    paused = true;
  }

  void end() noexcept {
    command([this] {
      mutex.assert_held();
      closed = true;
    });
    progress->wait_for_threads();
  }

  std::uint64_t log_time(std::size_t index) const {
    return recording.contents().messages[order[index]].log_time;
  }

  const Recording recording;
  const bus::ParticipantRef participant;
  const bool loops;
  const std::optional<Device> device;  // to which GPU tensors are copied
  std::vector<std::uint32_t> order;    // constant after construction, as are the next two
  std::map<std::uint16_t, std::unique_ptr<ReplayedChannel>> channels;
  std::optional<bus::Publisher> clock;

  mutable platform::Mutex mutex;
  std::atomic<std::uint32_t> commands = 0;  // a futex: the number of commands
  PlayTime time TB_GUARDED_BY(mutex);
  std::size_t next TB_GUARDED_BY(mutex) = 0;  // index in `order`; written only by the thread
  std::uint64_t before_turn TB_GUARDED_BY(mutex) = 0;  // messages published before this loop
  // The present recorded time if paused, else the time of the last message.
  std::uint64_t position TB_GUARDED_BY(mutex) = 0;
  bool paused TB_GUARDED_BY(mutex) = false;
  std::uint64_t steps TB_GUARDED_BY(mutex) = 0;
  bool closed TB_GUARDED_BY(mutex) = false;
  Clock::time_point clock_due TB_GUARDED_BY(mutex){};
  PlayerStats stats TB_GUARDED_BY(mutex){};

  std::atomic<std::uint32_t> ended = 0;  // a futex: 1 when the thread has ended
  const std::shared_ptr<RecordProgress> progress = std::make_shared<RecordProgress>();
  std::atomic<bool> thrown = false;  // close() has thrown the error
};

Player::Player(const Recording& recording, const PlayerOptions& options) {
  platform::with_memory_errors([&] { state_.emplace(recording, options); });
}
Player::Player(Player&&) noexcept = default;
Player& Player::operator=(Player&&) noexcept = default;
Player::~Player() = default;

void Player::pause() {
  State& state = *state_;
  state.command([&] {
    state.mutex.assert_held();
    state.pause();
  });
}

void Player::resume() {
  State& state = *state_;
  state.command([&] {
    state.mutex.assert_held();
    if (!state.paused) return;
    state.paused = false;
    state.steps = 0;
    state.time.start(state.position, Clock::now());
  });
}

void Player::step(std::uint64_t count) {
  State& state = *state_;
  state.command([&] {
    state.mutex.assert_held();
    state.pause();
    state.steps += count;
  });
}

void Player::set_rate(double rate) {
  State& state = *state_;
  (void)checked_rate(rate);
  state.command([&] {
    state.mutex.assert_held();
    state.time.set_rate(rate, Clock::now());
  });
}

Outcome Player::wait_for_subscribers(const platform::StopCondition& stop) {
  for (const auto& [id, channel] : state_->channels) {
    const Outcome outcome = channel->publisher().wait_for_subscribers(1, stop);
    if (outcome != Outcome::kDone) return outcome;
  }
  return Outcome::kDone;
}

Outcome Player::wait(const platform::StopCondition& stop) {
  State& state = *state_;
  return stop.wait(
      [&] { return state.ended.load(std::memory_order_acquire) != 0; },
      [&](std::chrono::nanoseconds most) { return platform::futex_wait(state.ended, 0, most); });
}

PlayerStats Player::stats() const {
  const State& state = *state_;
  PlayerStats stats;
  {
    const platform::MutexLock lock(state.mutex);
    stats = state.stats;
    stats.left = state.order.size() - state.next;
    stats.position_ns = state.recorded_now();
    stats.rate = state.time.rate();
    stats.paused = state.paused;
  }
  for (const auto& [id, channel] : state.channels)
    stats.bytes_copied += channel->publisher().stats().bytes_copied;
  stats.ended = state.ended.load(std::memory_order_acquire) != 0;
  if (const auto failure = state.progress->failure()) stats.error = failure->what();
  return stats;
}

void Player::close() {
  State& state = *state_;
  state.end();
  for (const auto& [id, channel] : state.channels) channel->publisher().close();
  if (state.clock) state.clock->close();
  if (state.thrown.exchange(true)) return;
  if (const auto failure = state.progress->failure()) throw Error(*failure);
}

}  // namespace tensorbus::recording
