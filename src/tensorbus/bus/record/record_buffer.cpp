#include "tensorbus/bus/record/record_buffer.hpp"

#include <utility>

namespace tensorbus::bus {
namespace {

// What is written at once: few system calls for small samples, and large ones soon go back.
constexpr std::size_t kMostTaken = 512;
constexpr std::uint64_t kMostTakenBytes = std::uint64_t{32} << 20;

}  // namespace

bool RecordBuffer::put(RecordedSample& sample, bool wait) {
  const platform::MutexLock lock(mutex_);
  while (wait && !closed_ && !has_room(sample.bytes)) changed_.wait(mutex_);
  if (closed_ || !has_room(sample.bytes)) return false;
  bytes_ += sample.bytes;
  samples_.push_back(std::move(sample));
  changed_.notify_all();
  return true;
}

std::vector<RecordedSample> RecordBuffer::take() {
  std::vector<RecordedSample> taken;
  const platform::MutexLock lock(mutex_);
  while (samples_.empty() && !closed_) changed_.wait(mutex_);
  std::uint64_t bytes = 0;
  while (!samples_.empty() && taken.size() < kMostTaken && bytes < kMostTakenBytes) {
    bytes += samples_.front().bytes;
    taken.push_back(std::move(samples_.front()));
    samples_.pop_front();
  }
  return taken;
}

void RecordBuffer::release(std::uint64_t bytes) {
  const platform::MutexLock lock(mutex_);
  bytes_ -= bytes;
  ++releases_;
  changed_.notify_all();
}

std::uint64_t RecordBuffer::wait_for_release(std::uint64_t count) {
  const platform::MutexLock lock(mutex_);
  while (releases_ == count && !closed_ && bytes_ > 0) changed_.wait(mutex_);
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
  std::deque<RecordedSample> left;  // their leases go back without the mutex
  const platform::MutexLock lock(mutex_);
  closed_ = stopped_ = true;
  left.swap(samples_);
  bytes_ = 0;
  changed_.notify_all();
  return left.size();
}

bool RecordBuffer::stopped() const {
  const platform::MutexLock lock(mutex_);
  return stopped_;
}

std::uint64_t RecordBuffer::bytes() const {
  const platform::MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace tensorbus::bus
