#include "tensorbus/bus/queue_client/ring_sleep.hpp"

#include <memory>
#include <vector>

#include "tensorbus/bus/session/queue_requests.hpp"

namespace tensorbus::bus {
namespace {

// While it exists, producers wake the thread that made it, and not the event loop.
class RingSleepers {
 public:
  RingSleepers(ParticipantContext& participant, const link::QueueName& queue)
      : participant_(participant), queue_(queue) {}
  ~RingSleepers() { end(); }
  RingSleepers(const RingSleepers&) = delete;
  RingSleepers& operator=(const RingSleepers&) = delete;

  // Appends the words to sleep on. Returns false if there are none, or if a ring has an entry.
  bool begin(std::vector<platform::FutexWord>& words) {
    const auto find = [&](ParticipantContext& context) {
      rings_ = context.queues->rings_to_sleep_on(queue_);
    };
    if (!participant_.run_now(find)) return false;
    if (rings_.rings.size() + words.size() > platform::kMaxFutexWords) return false;
    words.reserve(words.size() + rings_.rings.size());
    for (const auto& ring : rings_.rings) {
      const auto word = link::PutRingSleeper(ring->header()).begin();
      looks_ = !word;
      if (looks_) return false;
      ++begun_;
      words.push_back(*word);
    }
    return begun_ != 0;
  }

 private:
  // Must work when memory is short.
  void end() noexcept {
    for (std::size_t i = 0; i < begun_; ++i)
      if (!link::PutRingSleeper(rings_.rings[i]->header()).end()) looks_ = true;
    if (!looks_) return;
    try {
      const auto look = [&](ParticipantContext& context) { context.queues->look_again(queue_); };
      if (participant_.run_now(look)) return;
    } catch (const std::exception&) {
    }
    participant_.loop.schedule(*rings_.look);
  }

  ParticipantContext& participant_;
  const link::QueueName queue_;
  RingsToSleepOn rings_;
  std::size_t begun_ = 0;  // number of rings begun, counted from the first one
  bool looks_ = false;     // a client may have put an item
};

}  // namespace

std::optional<platform::FutexWait> sleep_on_rings(ParticipantContext& participant,
                                                  const link::QueueName& queue,
                                                  std::span<CompletionState* const> until,
                                                  std::chrono::nanoseconds most) {
  if (!platform::can_wait_for_any()) return std::nullopt;
  std::vector<platform::FutexWord> words;
  words.reserve(until.size());
  for (CompletionState* const one : until) words.push_back(one->to_sleep_on());
  RingSleepers sleepers(participant, queue);
  if (!sleepers.begin(words)) return std::nullopt;
  return platform::futex_wait_any(words, most);
}

}  // namespace tensorbus::bus
