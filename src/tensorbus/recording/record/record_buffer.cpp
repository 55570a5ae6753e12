#include "tensorbus/recording/record/record_buffer.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace tensorbus::recording {
namespace {

// Limits for one write. They are large enough for few system calls with small samples, and small
// enough that the leases of large samples are returned soon.
constexpr std::size_t kMaxTaken = 512;
constexpr std::uint64_t kMaxTakenBytes = std::uint64_t{32} << 20;
// The samples of a topic that are dropped at once when its subscriber may hold no more: at least
// kMinDropped, or 1 / kPartDropped of them. Several at once, because each time costs a search of
// all samples.
constexpr std::size_t kMinDropped = 64;
constexpr std::size_t kPartDropped = 8;

}  // namespace

bool RecordBuffer::put(RecordedSample& sample, bool wait) {
  try {
    return has_put(sample, wait);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// Also leaves the sample unchanged if memory is short.
bool RecordBuffer::has_put(RecordedSample& sample, bool wait) {
  Samples gone;
  const platform::MutexLock lock(mutex_);
  if (keep_ns_ != 0) drop_old(sample.log_time, gone);
  while (keep_ns_ != 0 && !samples_.empty() && !has_room(sample.bytes)) drop_oldest(gone);
  while (wait && !closed_ && !has_room(sample.bytes)) changed_.wait(mutex_);
  if (closed_ || !has_room(sample.bytes)) return false;
  const std::uint64_t bytes = sample.bytes;
  samples_.push_back(std::move(sample));
  bytes_ += bytes;
  changed_.notify_all();
  return true;
}

std::vector<RecordedSample> RecordBuffer::take(std::optional<platform::Clock::time_point> until) {
  std::vector<RecordedSample> taken;
  const platform::MutexLock lock(mutex_);
  while (samples_.empty() && !closed_) {
    if (!until) {
      changed_.wait(mutex_);
    } else if (platform::Clock::now() >= *until) {
      return taken;
    } else {
      changed_.wait_until(mutex_, *until);
    }
  }
  std::uint64_t bytes = 0;
  while (!samples_.empty() && taken.size() < kMaxTaken && bytes < kMaxTakenBytes) {
    bytes += samples_.front().bytes;
    taken.push_back(std::move(samples_.front()));
    samples_.pop_front();
  }
  return taken;
}

bool RecordBuffer::ended() const {
  const platform::MutexLock lock(mutex_);
  return closed_ && samples_.empty();
}

void RecordBuffer::drop_oldest(Samples& gone) {
  const std::uint64_t bytes = samples_.front().bytes;
  gone.push_back(std::move(samples_.front()));
  samples_.pop_front();
  bytes_ -= bytes;
  ++releases_;
}

// Moves the oldest samples of the topic to `gone`.
void RecordBuffer::drop_of_topic(const std::string& topic, std::vector<RecordedSample>& gone) {
  const auto is_one = [&](const RecordedSample& one) { return one.publisher->topic == topic; };
  const auto all = static_cast<std::size_t>(std::ranges::count_if(samples_, is_one));
  const std::size_t most = std::min(all, std::max(kMinDropped, all / kPartDropped));
  gone.reserve(most);
  auto end = samples_.begin();  // after the last of these
  for (auto one = end; gone.size() < most; ++one) {
    if (!is_one(*one)) continue;
    bytes_ -= one->bytes;
    gone.push_back(std::move(*one));
    end = std::next(one);
  }
  // Moves the other samples before `end` to the end of this range, in order.
  const auto kept =
      std::remove_if(std::make_reverse_iterator(end), samples_.rend(),
                     [](const RecordedSample& one) { return one.publisher == nullptr; });
  samples_.erase(samples_.begin(), kept.base());
  releases_ += gone.size();
}

void RecordBuffer::drop_old(std::uint64_t now, Samples& gone) {
  while (!samples_.empty() && now > keep_ns_ && samples_.front().log_time < now - keep_ns_)
    drop_oldest(gone);
}

void RecordBuffer::expire(std::uint64_t now) {
  if (keep_ns_ == 0) return;
  Samples gone;
  const platform::MutexLock lock(mutex_);
  drop_old(now, gone);
}

std::uint32_t RecordBuffer::request_snapshot(std::uint64_t now) {
  Samples gone;
  const platform::MutexLock lock(mutex_);
  if (closed_) return 0;
  drop_old(now, gone);
  snapshots_.push_back(std::move(samples_));
  samples_.clear();
  changed_.notify_all();
  return ++requested_;
}

std::optional<std::deque<RecordedSample>> RecordBuffer::take_snapshot() {
  const platform::MutexLock lock(mutex_);
  while (snapshots_.empty() && !closed_) changed_.wait(mutex_);
  if (snapshots_.empty()) return std::nullopt;
  Samples taken = std::move(snapshots_.front());
  snapshots_.pop_front();
  return taken;
}

void RecordBuffer::release(std::uint64_t bytes) {
  const platform::MutexLock lock(mutex_);
  bytes_ -= bytes;
  ++releases_;
  changed_.notify_all();
}

std::uint64_t RecordBuffer::wait_for_release(std::uint64_t count, const std::string& topic) {
  std::vector<RecordedSample> gone;
  const platform::MutexLock lock(mutex_);
  if (keep_ns_ != 0) drop_of_topic(topic, gone);
  while (keep_ns_ == 0 && releases_ == count && !closed_ && bytes_ > 0) changed_.wait(mutex_);
  return releases_;
}

std::uint64_t RecordBuffer::releases() const {
  const platform::MutexLock lock(mutex_);
  return releases_;
}

void RecordBuffer::close() {
  const platform::MutexLock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

std::size_t RecordBuffer::stop() {
  Samples left;  // leases are returned without the mutex
  std::deque<Samples> snapshots;
  const platform::MutexLock lock(mutex_);
  closed_ = stopped_ = true;
  left.swap(samples_);
  snapshots.swap(snapshots_);
  bytes_ = 0;
  changed_.notify_all();
  if (keep_ns_ == 0) return samples_in(left);
  std::size_t count = 0;
  for (const Samples& one : snapshots) count += samples_in(one);
  return count;
}

bool RecordBuffer::stopped() const {
  const platform::MutexLock lock(mutex_);
  return stopped_;
}

std::uint64_t RecordBuffer::bytes() const {
  const platform::MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace tensorbus::recording
