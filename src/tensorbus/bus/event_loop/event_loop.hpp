#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/waiting/poller.hpp"

namespace tensorbus::bus {

// The one thread of a participant. It calls handlers when descriptors are ready, and runs posted
// tasks. It sleeps when there is nothing to do, blocks all signals, and never waits for a peer. An
// Error that a handler throws is logged (platform/log.hpp), and the thread goes on. A handler that
// meets a limit (Error(kOutOfMemory), std::bad_alloc) is called again a little later, until it
// succeeds, so it must be able to start again. Other threads may call watch(), unwatch(), post()
// and schedule().
class EventLoop {
 public:
  using Handler = std::function<void()>;
  using Tag = std::uint64_t;

  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // The handler runs whenever `fd` is readable or hung up, or, after watch_writable(), writable.
  // After watch_readable(false) it does not run for a readable `fd`.
  Tag watch(int fd, Handler handler);
  void watch_writable(Tag tag, int fd, bool writable);
  void watch_readable(Tag tag, int fd, bool readable);
  // Called before the descriptor is closed. In another thread the handler may run once more.
  void unwatch(Tag tag, int fd) noexcept;

  // Runs `task` on the thread, soon. After stop() it is dropped.
  void post(Handler task);
  // Runs `task` on the thread after about this delay.
  void post_later(std::chrono::milliseconds delay, Handler task);

  // Work that is done repeatedly. Scheduling it allocates nothing, so a destructor may do it.
  // Scheduling it twice before it runs is the same as once.
  class Task;
  // The task lives as long as the loop.
  Task& add_task(Handler task);
  void schedule(Task& task, std::chrono::milliseconds delay = {}) noexcept;

  // Throws Error(kOutOfMemory) that names the limit if no thread can be started.
  void start();
  // Ends the thread and waits for it. Must not be called by a handler.
  void stop() noexcept;
  // Runs one round of the loop, for callers without the thread. Waits at most `timeout` (-1:
  // without limit) for something to do.
  void turn(std::chrono::milliseconds timeout);

 private:
  using Clock = std::chrono::steady_clock;
  struct Timer {
    Clock::time_point at;
    Handler task;
  };
  struct Watched {
    std::shared_ptr<Handler> handler;
    int fd = -1;
    platform::Interest interest{};
    std::optional<Clock::time_point> paused_until;  // the poller does not know of it till then
  };
  // Lists, so that tasks can be queued again without allocating.
  using Timers = std::list<Timer>;

  void run();
  void dispatch(Tag tag);
  // Returns false if the handler met a limit.
  [[nodiscard]] bool guarded(const Handler& handler);
  void report_shortage(const char* what);
  Timers take_due();
  void run_due_tasks();
  void pause(Tag tag);
  void resume_paused();
  std::optional<Tag> next_paused();
  std::chrono::milliseconds until_next_timer();

  platform::Poller poller_;
  platform::Fd wake_;
  platform::Mutex mutex_;
  std::unordered_map<Tag, Watched> watched_ TB_GUARDED_BY(mutex_);
  std::size_t paused_ TB_GUARDED_BY(mutex_) = 0;  // of these
  Timers posted_ TB_GUARDED_BY(mutex_);
  Timers timers_ TB_GUARDED_BY(mutex_);
  std::list<Task> tasks_ TB_GUARDED_BY(mutex_);
  Clock::time_point silent_until_{};        // about shortages
  Tag next_tag_ TB_GUARDED_BY(mutex_) = 1;  // 0 is wake_
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

class EventLoop::Task {
 public:
  explicit Task(Handler task) : task_(std::move(task)) {}

 private:
  friend class EventLoop;
  const Handler task_;
  std::optional<Clock::time_point> at_;  // when it is due; empty: not scheduled
};

}  // namespace tensorbus::bus
