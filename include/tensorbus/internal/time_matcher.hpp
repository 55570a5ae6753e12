#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace tensorbus::inline v0 {
namespace internal {

// Combines samples of several topics into sets: one sample of each topic, whose times differ by at
// most `tolerance`. The same as TimeMatcher in python/tensorbus/_topics/time_matcher.py; both pass
// tests/public/time_matcher_cases.txt. Decision 45 explains it: the pivot of the approximate time
// policy of ROS (https://wiki.ros.org/message_filters/ApproximateTime), without its waits.
template <typename Item>
class TimeMatcher {
 public:
  struct Topic {
    std::deque<std::pair<std::int64_t, Item>> waiting{};  // in the order of the times
    std::optional<std::int64_t> newest{};                 // time of the last accepted sample
    std::uint32_t late_in_a_row = 0;
    // Dropped samples, by reason.
    std::uint64_t unmatched = 0;
    std::uint64_t overflowed = 0;
    std::uint64_t late = 0;

    // No sample of this topic in a later set is older than this; empty if it had none yet.
    std::optional<std::int64_t> first_time() const {
      return waiting.empty() ? newest : waiting.front().first;
    }
    // Drops the `count` oldest samples, which have found no partners.
    void skip(std::size_t count) {
      unmatched += count;
      for (; count > 0; --count) waiting.pop_front();
    }
  };

  // Times and `tolerance` are in ns.
  TimeMatcher(std::size_t count, std::uint64_t tolerance, std::uint32_t queue_size)
      : topics_(count), tolerance_(tolerance), queue_size_(queue_size) {}

  const std::vector<Topic>& topics() const noexcept { return topics_; }
  std::uint64_t sets() const noexcept { return sets_; }  // so far

  // Adds the next sample of a topic. Returns true if it completes a set, and appends that to `set`.
  bool add(std::size_t index, std::int64_t time, Item item, std::vector<Item>& set);

 private:
  static std::uint64_t apart(std::int64_t later, std::int64_t earlier) noexcept {
    return static_cast<std::uint64_t>(later) - static_cast<std::uint64_t>(earlier);
  }
  void drop_unmatchable();
  std::vector<std::size_t> tightest() const;

  std::vector<Topic> topics_;
  std::uint64_t sets_ = 0;
  std::uint64_t tolerance_;
  std::uint32_t queue_size_;
};

template <typename Item>
bool TimeMatcher<Item>::add(std::size_t index, std::int64_t time, Item item,
                            std::vector<Item>& set) {
  Topic& topic = topics_[index];
  if (topic.newest && time < *topic.newest) {
    if (++topic.late_in_a_row < queue_size_) {
      ++topic.late;
      return false;
    }
    topic.skip(topic.waiting.size());  // the time has stepped back
  }
  topic.late_in_a_row = 0;
  topic.newest = time;
  if (topic.waiting.size() == queue_size_) {
    ++topic.overflowed;
    topic.waiting.pop_front();
  }
  topic.waiting.emplace_back(time, std::move(item));
  drop_unmatchable();
  for (const Topic& each : topics_)
    if (each.waiting.empty()) return false;
  const std::vector<std::size_t> places = tightest();
  set.reserve(set.size() + topics_.size());
  for (std::size_t i = 0; i < topics_.size(); ++i) {
    topics_[i].skip(places[i]);
    set.push_back(std::move(topics_[i].waiting.front().second));
    topics_[i].waiting.pop_front();
  }
  ++sets_;
  return true;
}

// Drops each sample that is too old for any later set.
template <typename Item>
void TimeMatcher<Item>::drop_unmatchable() {
  bool dropped = true;
  while (dropped) {
    dropped = false;
    std::optional<std::int64_t> last;  // an empty one is less than all others
    for (const Topic& each : topics_) last = std::max(last, each.first_time());
    for (Topic& each : topics_) {
      const auto is_kept = [&](const auto& waiting) {
        return waiting.first >= *last || apart(*last, waiting.first) <= tolerance_;
      };
      const auto kept = std::find_if(each.waiting.begin(), each.waiting.end(), is_kept);
      const auto count = static_cast<std::size_t>(kept - each.waiting.begin());
      each.skip(count);
      dropped = dropped || count > 0;
    }
  }
}

// Returns the places, in each topic, of the set with the least difference of times. The oldest
// samples of all topics are a set. The newest of them, the pivot, is in each candidate: each step
// replaces the oldest sample by the next one of its topic.
template <typename Item>
std::vector<std::size_t> TimeMatcher<Item>::tightest() const {
  std::vector<std::size_t> places(topics_.size());
  std::vector<std::int64_t> times;
  for (const Topic& each : topics_) times.push_back(each.waiting.front().first);
  const std::int64_t pivot = *std::max_element(times.begin(), times.end());
  std::vector<std::size_t> best = places;
  std::optional<std::uint64_t> best_spread;
  while (true) {
    const auto [low, high] = std::minmax_element(times.begin(), times.end());
    const std::uint64_t spread = apart(*high, *low);
    if (!best_spread || spread < *best_spread) {
      best = places;
      best_spread = spread;
    }
    const auto oldest = static_cast<std::size_t>(low - times.begin());
    const auto& waiting = topics_[oldest].waiting;
    if (*low == pivot || places[oldest] + 1 == waiting.size()) return best;
    times[oldest] = waiting[++places[oldest]].first;
  }
}

}  // namespace internal
}  // namespace tensorbus::inline v0
