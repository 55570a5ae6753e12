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

#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/waiting/adaptive_spin.hpp"
#include "tensorbus/platform/waiting/futex.hpp"
#include "tensorbus/platform/waiting/poller.hpp"

namespace tensorbus::bus {

// Calls handlers when descriptors are ready, and runs posted tasks: one at a time, normally in a
// thread of its own. This thread sleeps when there is nothing to do, blocks signals, and never
// waits for a peer. A program's thread may take its place (run_or_post(), Driver). "On the event
// loop" means: in a handler or a task, in any thread. An Error that a handler throws is logged
// (platform/log.hpp), and the loop goes on. A handler that meets a limit (Error(kOutOfMemory),
// std::bad_alloc) is called again a little later, until it succeeds, so it must be able to start
// again. Other threads may call all functions except start(), stop() and turn().
class EventLoop {
 public:
  using Handler = std::function<void()>;
  using Tag = std::uint64_t;
  class Driver;

  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // The handler runs whenever `fd` is readable or hung up, or, after watch_writable(), writable.
  // After watch_readable(false) it does not run for a readable `fd`.
  Tag watch(int fd, Handler handler);
  void watch_writable(Tag tag, int fd, bool writable);
  void watch_readable(Tag tag, int fd, bool readable);
  // Runs the handler soon, as if the descriptor were ready: after the handler or task that calls
  // this, normally in the same turn; else on the loop's own thread. Allocates nothing.
  void dispatch_soon(Tag tag) noexcept;
  // Called before the descriptor is closed. If another thread is in a turn, the handler may run
  // once more.
  void unwatch(Tag tag, int fd) noexcept;

  // Runs `task` soon, normally on the loop's own thread. After stop() it is dropped.
  void post(Handler task);
  // Runs `task` in the calling thread, after the tasks posted before. Posts it instead if another
  // thread is in a turn, or if the caller is on the event loop. The caller must hold no lock. Does
  // not wait for a turn. `after_messages`: first runs the handlers of descriptors that are ready
  // now.
  void run_or_post(Handler task, bool after_messages = false);
  // Runs `work` in a turn of the calling thread, now. Returns false, without a call of `work`, if
  // that is not possible at once, or after stop(). Throws what `work` throws. `after_messages`: see
  // run_or_post().
  template <typename Work>
  bool run_now(const Work& work, bool after_messages = false) {
    return run_now([](const void* what) { (*static_cast<const Work*>(what))(); }, &work,
                   after_messages);
  }
  // As run_now(), but waits while another thread is in a turn. Returns false only on the event loop
  // itself, or after stop(). The caller must hold no lock that a handler takes.
  template <typename Work>
  bool run_in_turn(const Work& work) {
    return run_in_turn([](const void* what) { (*static_cast<const Work*>(what))(); }, &work);
  }
  // Runs `task` on the loop's thread after about this delay.
  void post_later(std::chrono::milliseconds delay, Handler task);

  // Work that may run many times. Scheduling allocates nothing, so a destructor may do it. A task
  // that is scheduled twice before it runs is run once, at the earlier time.
  class Task;
  // The task exists as long as the loop.
  Task& add_task(Handler task);
  void schedule(Task& task, std::chrono::milliseconds delay = {}) noexcept;

  // Starts the thread, which first calls `first` if that is set. Throws Error(kOutOfMemory) that
  // names the limit if no thread can be started.
  void start(const Handler& first = {});
  // Ends the thread and waits for it. Must not be called by a handler.
  void stop() noexcept;
  // Runs one round of the loop in the calling thread, for callers that do not start() the loop's
  // thread. Waits at most `timeout` (-1: without limit) for work.
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
    std::optional<Clock::time_point> paused_until;  // not in the poller until then
    std::list<Tag> soon;                            // its node for soon_; empty while it is there
  };
  // Lists, so that tasks can be queued again without allocating.
  using Timers = std::list<Timer>;

  class Turn;
  // Tags of outer_ and of poller_.
  static constexpr Tag kWake = 0;
  static constexpr Tag kPoller = 1;
  static constexpr Tag kKick = 0;

  bool run_now(void (*work)(const void*), const void* with, bool after_messages);
  bool run_in_turn(void (*work)(const void*), const void* with);
  // Called in a turn of the calling thread. Returns false after stop().
  bool run_here(void (*work)(const void*), const void* with, bool after_messages = false);
  bool is_in_turn() const noexcept;
  bool try_lock_turn() noexcept TB_TRY_ACQUIRE(true, turn_);
  void run();
  void dispatch(Tag tag);
  void run_tasks(Timers due);
  // Returns false if no descriptor was ready.
  bool dispatch_ready();
  void run_soon();
  std::optional<Tag> take_soon();
  // Returns false if the handler met a limit.
  [[nodiscard]] bool guarded(const Handler& handler);
  void report_shortage(const char* what);
  Timers take_posted();
  Timers take_due();
  void run_due_tasks();
  void pause(Tag tag);
  void resume_paused();
  std::optional<Tag> next_paused();
  std::chrono::milliseconds until_next_timer();

  platform::Poller poller_;  // the watched descriptors
  platform::Poller outer_;   // for the loop's own thread: contains poller_ and wake_
  platform::Fd wake_;
  platform::Fd kick_;  // wakes a Driver; only the Driver clears it, because others may see it first
  std::atomic<bool> kicked_{false};
  platform::Mutex turn_;
  std::atomic<std::thread::id> running_{};  // relaxed: a thread compares only its own id
  // The thread that waits for poller_ instead of the loop's own thread; empty if there is none.
  std::atomic<std::thread::id> driver_{};
  platform::AdaptiveSpin spin_{1};  // used by the Driver that has the place
  platform::Mutex mutex_;
  std::unordered_map<Tag, Watched> watched_ TB_GUARDED_BY(mutex_);
  std::size_t paused_ TB_GUARDED_BY(mutex_) = 0;  // number of paused elements of watched_
  std::list<Tag> soon_ TB_GUARDED_BY(mutex_);     // tags given to dispatch_soon()
  std::atomic<bool> any_soon_{false};             // false: soon_ is empty, and no lock is taken
  Timers posted_ TB_GUARDED_BY(mutex_);
  Timers timers_ TB_GUARDED_BY(mutex_);
  std::list<Task> tasks_ TB_GUARDED_BY(mutex_);
  Clock::time_point silent_until_{};        // no shortage is logged before
  Tag next_tag_ TB_GUARDED_BY(mutex_) = 1;  // 0 is kKick
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

// Lets a waiting thread run the handlers that bring its result. So a reply wakes only this thread,
// not the loop's own thread first. One thread of a participant does so at a time; other threads
// wait normally. Tasks and timers stay with the loop's own thread. Used by one thread, which holds
// no lock and is not on an event loop.
class EventLoop::Driver {
 public:
  // `at_once`: takes the place now, since a reply may come before the wait.
  explicit Driver(EventLoop& loop, bool at_once = true) noexcept : loop_(loop) {
    if (at_once) (void)take();
  }
  ~Driver() { leave(); }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // Takes the place of the loop's own thread, to wait for descriptors. Returns false if another
  // thread has it, or the caller is on the event loop.
  bool take() noexcept;
  void leave() noexcept;
  // Called after take(): runs handlers until done() is true, for at most `most`. If waits are
  // short, it polls before it sleeps.
  template <typename Done>
  platform::FutexWait wait_until(const Done& done, std::chrono::nanoseconds most) {
    const platform::Deadline deadline(most);
    const bool looks = loop_.spin_.looks();
    const platform::Deadline sleeps_at(looks ? loop_.spin_.most() : std::chrono::nanoseconds{});
    const auto begin = Clock::now();
    auto parked = platform::FutexWait::kWoken;
    while (!done() && parked == platform::FutexWait::kWoken) {
      if (deadline.passed())
        parked = platform::FutexWait::kTimedOut;
      else if (!turn(sleeps_at.passed() ? deadline.remaining(most) : std::chrono::nanoseconds{}))
        parked = platform::FutexWait::kInterrupted;
    }
    const bool slept = sleeps_at.passed();
    if (looks) loop_.spin_.looked(!slept);
    if (slept) loop_.spin_.slept(Clock::now() - begin);
    return parked;
  }
  // Wakes the thread that waits in the loop's place. Called by any thread.
  static void kick(EventLoop& loop) noexcept;
  EventLoop& loop() const noexcept { return loop_; }

 private:
  // Returns false after a signal.
  bool turn(std::chrono::nanoseconds most);

  EventLoop& loop_;
  bool taken_ = false;
};

}  // namespace tensorbus::bus
