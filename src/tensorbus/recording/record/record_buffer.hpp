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

namespace tensorbus::recording {

// The samples that wait to be written: one thread puts them, another takes them. The sum of their
// bytes has a limit, which includes samples that are being written. With `keep_ns` they wait for a
// snapshot: the oldest are dropped if there is no room, or if they are older than `keep_ns`.
// Thread-safe.
class RecordBuffer {
 public:
  // `keep_ns` 0: all samples are written.
  explicit RecordBuffer(std::uint64_t max_bytes, std::uint64_t keep_ns = 0)
      : max_bytes_(max_bytes), keep_ns_(keep_ns) {}

  // Returns false, and leaves the sample unchanged, if there is no room or memory, or if the buffer
  // is closed. A sample that is larger than the buffer has room when the buffer is empty. With
  // `wait`, waits for room.
  [[nodiscard]] bool put(RecordedSample& sample, bool wait);
  // Waits for samples and takes some of them; takes none if the buffer is closed and empty, or
  // after `until`.
  std::vector<RecordedSample> take(std::optional<platform::Clock::time_point> until = {});
  // Returns true if the buffer is closed and empty.
  bool ended() const;
  // Waits for a requested snapshot and takes its samples. Returns nothing if the buffer is closed
  // and all snapshots were taken.
  std::optional<std::deque<RecordedSample>> take_snapshot();
  // Requests a snapshot of the present samples. Returns its number, from 1 on; 0 if the buffer is
  // closed.
  std::uint32_t request_snapshot(std::uint64_t now);
  // Drops samples that are too old for a snapshot.
  void expire(std::uint64_t now);
  // Called when `bytes` bytes of taken samples are no longer held.
  void release(std::uint64_t bytes);
  // Waits until releases() is no longer `count`, the buffer is empty or it is closed. Returns
  // releases(). With `keep_ns`, does not wait, but drops the oldest samples of this topic, if there
  // are any.
  std::uint64_t wait_for_release(std::uint64_t count, const std::string& topic);
  std::uint64_t releases() const;

  void close();  // no sample can be put any more
  // Closes the buffer and drops all samples. Returns how many of them were still to be written.
  std::size_t stop();
  bool stopped() const;
  std::uint64_t bytes() const;

 private:
  bool has_room(std::uint64_t bytes) const TB_REQUIRES(mutex_) {
    return bytes_ == 0 || (bytes_ <= max_bytes_ && bytes <= max_bytes_ - bytes_);
  }
  using Samples = std::deque<RecordedSample>;
  bool has_put(RecordedSample& sample, bool wait);
  // Moves the oldest sample to `gone`, which returns its lease without the mutex.
  void drop_oldest(Samples& gone) TB_REQUIRES(mutex_);
  void drop_of_topic(const std::string& topic, std::vector<RecordedSample>& gone)
      TB_REQUIRES(mutex_);
  void drop_old(std::uint64_t now, Samples& gone) TB_REQUIRES(mutex_);

  const std::uint64_t max_bytes_;
  const std::uint64_t keep_ns_;
  mutable platform::Mutex mutex_;
  platform::Condition changed_;
  Samples samples_ TB_GUARDED_BY(mutex_);
  std::deque<Samples> snapshots_ TB_GUARDED_BY(mutex_);  // requested and not yet taken
  std::uint32_t requested_ TB_GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_ TB_GUARDED_BY(mutex_) = 0;
  std::uint64_t releases_ TB_GUARDED_BY(mutex_) = 0;
  bool closed_ TB_GUARDED_BY(mutex_) = false;
  bool stopped_ TB_GUARDED_BY(mutex_) = false;
};

}  // namespace tensorbus::recording
