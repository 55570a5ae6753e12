#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "tensorbus/bus/record/recorded_sample.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::bus {

// The samples that wait to be written: one thread puts them in, another one takes them out. The
// bytes that they hold are bounded, those that are being written included. Thread-safe.
class RecordBuffer {
 public:
  explicit RecordBuffer(std::uint64_t most_bytes) : most_bytes_(most_bytes) {}

  // Returns false, and leaves the sample, if there is no room, or nothing is written any more. A
  // sample that is larger than the buffer has room when nothing else waits. With `wait` it waits
  // for room.
  [[nodiscard]] bool put(RecordedSample& sample, bool wait);
  // Waits for samples, and takes some; none: it is closed, and all were taken.
  std::vector<RecordedSample> take();
  // These bytes, which were taken, are held no more.
  void release(std::uint64_t bytes);
  // Waits until something was released since `count` was its return value, or it is stopped.
  std::uint64_t wait_for_release(std::uint64_t count);
  std::uint64_t releases() const;

  void close();  // nothing is put in any more
  // Nothing is taken out any more. Returns how many samples still waited.
  std::size_t stop();
  bool stopped() const;
  std::uint64_t bytes() const;

 private:
  bool has_room(std::uint64_t bytes) const TB_REQUIRES(mutex_) {
    return bytes_ == 0 || (bytes_ <= most_bytes_ && bytes <= most_bytes_ - bytes_);
  }

  const std::uint64_t most_bytes_;
  mutable platform::Mutex mutex_;
  platform::Condition changed_;
  std::deque<RecordedSample> samples_ TB_GUARDED_BY(mutex_);
  std::uint64_t bytes_ TB_GUARDED_BY(mutex_) = 0;
  std::uint64_t releases_ TB_GUARDED_BY(mutex_) = 0;
  bool closed_ TB_GUARDED_BY(mutex_) = false;
  bool stopped_ TB_GUARDED_BY(mutex_) = false;
};

}  // namespace tensorbus::bus
