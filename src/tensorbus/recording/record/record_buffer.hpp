#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/recording/record/recorded_sample.hpp"

namespace tensorbus::bus {

// The samples that wait to be written: one thread puts them in, another one takes them out. The
// bytes that they hold are bounded, those that are being written included. With `keep_ns` they wait
// for a snapshot: the oldest leave for want of room, or when they are older. Thread-safe.
class RecordBuffer {
 public:
  // `keep_ns`: 0: all are written.
  explicit RecordBuffer(std::uint64_t most_bytes, std::uint64_t keep_ns = 0)
      : most_bytes_(most_bytes), keep_ns_(keep_ns) {}

  // Returns false, and leaves the sample, if there is no room or memory, or nothing is written any
  // more. A sample that is larger than the buffer has room when nothing else waits. With `wait` it
  // waits for room.
  [[nodiscard]] bool put(RecordedSample& sample, bool wait);
  // Waits for samples, and takes some; none: it is closed, and all were taken, or it is `until`.
  std::vector<RecordedSample> take(std::optional<platform::Clock::time_point> until = {});
  // Returns true if all were taken, and nothing is put in any more.
  bool ended() const;
  // The same of all samples of a snapshot. Nothing: it is closed, and all were taken.
  std::optional<std::deque<RecordedSample>> take_snapshot();
  // What is here now is to be written. Returns the number of the snapshot, from 1 on; 0 if nothing
  // is written any more.
  std::uint32_t request_snapshot(std::uint64_t now);
  // Lets go of what is too old for a snapshot.
  void expire(std::uint64_t now);
  // These bytes, which were taken, are held no more.
  void release(std::uint64_t bytes);
  // Waits until something was released since `count` was its return value, or it is closed. Of
  // what waits for a snapshot the oldest of this topic leave; if there are none, it returns
  // `count` at once.
  std::uint64_t wait_for_release(std::uint64_t count, const std::string& topic);
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
  using Samples = std::deque<RecordedSample>;
  bool has_put(RecordedSample& sample, bool wait);
  // Moves the oldest to `gone`, whose leases go back without the mutex.
  void drop_oldest(Samples& gone) TB_REQUIRES(mutex_);
  void drop_of_topic(const std::string& topic, std::vector<RecordedSample>& gone)
      TB_REQUIRES(mutex_);
  void drop_old(std::uint64_t now, Samples& gone) TB_REQUIRES(mutex_);

  const std::uint64_t most_bytes_;
  const std::uint64_t keep_ns_;
  mutable platform::Mutex mutex_;
  platform::Condition changed_;
  Samples samples_ TB_GUARDED_BY(mutex_);
  std::deque<Samples> snapshots_ TB_GUARDED_BY(mutex_);  // that are to be written
  std::uint32_t requested_ TB_GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_ TB_GUARDED_BY(mutex_) = 0;
  std::uint64_t releases_ TB_GUARDED_BY(mutex_) = 0;
  bool closed_ TB_GUARDED_BY(mutex_) = false;
  bool stopped_ TB_GUARDED_BY(mutex_) = false;
};

}  // namespace tensorbus::bus
