#include "tensorbus/platform/threads/parallel_for.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>

#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/threads/background_thread.hpp"

namespace tensorbus::platform {
namespace {

constexpr std::size_t kMaxWorkers = 3;
constexpr std::uint32_t kRest = 16;  // jobs without workers, after one that no worker joined

class Job {
 public:
  Job(std::size_t parts, void (*work)(const void*, std::size_t) noexcept, const void* with) noexcept
      : parts_(parts), work_(work), with_(with) {}

  // Returns true if any part was left.
  bool take_parts() noexcept {
    bool any = false;
    // Relaxed: the mutex of Workers orders the reads and writes of the work.
    for (std::size_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < parts_; any = true)
      work_(with_, i);
    return any;
  }

 private:
  const std::size_t parts_;
  void (*const work_)(const void*, std::size_t) noexcept;
  const void* const with_;
  std::atomic<std::size_t> next_ = 0;
};

// The worker threads and their current job. A job lies on the stack of its caller, which waits
// until all workers have left it.
class Workers {
 public:
  [[noreturn]] void work() noexcept {
    const MutexLock lock(mutex_);
    for (std::uint64_t last = 0;;) {
      while (job_ == nullptr || number_ == last) came_.wait(mutex_);
      last = number_;
      Job& job = *job_;
      ++inside_;
      bool any = false;
      {
        const MutexUnlock unlocked(mutex_);
        any = job.take_parts();
      }
      took_part_ = took_part_ || any;
      if (--inside_ == 0) gone_.notify_all();
    }
  }

  void run(Job& job) noexcept {
    const bool is_shared = begin(job);
    job.take_parts();
    if (is_shared) end();
  }

 private:
  bool begin(Job& job) noexcept {
    const MutexLock lock(mutex_);
    if (job_ != nullptr || inside_ != 0) return false;
    if (rest_ != 0) {
      --rest_;
      return false;
    }
    job_ = &job;
    ++number_;
    took_part_ = false;
    came_.notify_all();
    return true;
  }
  void end() noexcept {
    const MutexLock lock(mutex_);
    job_ = nullptr;
    while (inside_ != 0) gone_.wait(mutex_);
    if (!took_part_) rest_ = kRest;
  }

  Mutex mutex_;
  Condition came_;
  Condition gone_;
  Job* job_ TB_GUARDED_BY(mutex_) = nullptr;
  std::uint64_t number_ TB_GUARDED_BY(mutex_) = 0;  // of the job
  std::size_t inside_ TB_GUARDED_BY(mutex_) = 0;    // workers that use the job
  bool took_part_ TB_GUARDED_BY(mutex_) = false;
  std::uint32_t rest_ TB_GUARDED_BY(mutex_) = 0;
};

std::size_t other_cores() noexcept {
  cpu_set_t ours;
  CPU_ZERO(&ours);
  if (::sched_getaffinity(0, sizeof ours, &ours) != 0) return 0;  // more than 1,024 cores
  return static_cast<std::size_t>(std::max(CPU_COUNT(&ours), 1)) - 1;
}

void start(Workers& workers) {
  try {
    for (std::size_t i = 1; i < std::min(other_cores(), kMaxWorkers); ++i)
      start_background_thread("a thread that copies", [&workers] { workers.work(); });
  } catch (const std::exception&) {  // fewer workers run
  }
  workers.work();
}

constinit BackgroundThread<Workers> first_worker("a thread that copies", start);

// Returns null if this thread may use only one core, or if no worker can be started.
Workers* workers() noexcept {
  if (other_cores() == 0) return nullptr;
  try {
    return &first_worker.start();
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace

void parallel_for(std::size_t parts, void (*work)(const void*, std::size_t) noexcept,
                  const void* with) noexcept {
  Job job(parts, work, with);
  if (Workers* const found = workers())
    found->run(job);
  else
    job.take_parts();
}

}  // namespace tensorbus::platform
