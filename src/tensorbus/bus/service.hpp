#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/poller.hpp"

namespace tensorbus::bus {

// The one thread of a participant: calls handlers when descriptors are ready and runs what was
// posted. It sleeps when there is nothing to do, blocks all signals, and never waits for a peer. An
// Error that a handler lets through is told on stderr, and the thread goes on.
class Service {
 public:
  using Handler = std::function<void()>;
  using Tag = std::uint64_t;

  Service();
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // The handler runs whenever `fd` is readable, hung up, or (after watch_writable) writable; after
  // watch_readable(false) no longer when it is readable.
  Tag watch(int fd, Handler handler);
  void watch_writable(Tag tag, int fd, bool writable);
  void watch_readable(Tag tag, int fd, bool readable);
  // Before the descriptor is closed. The handler may run once more if this is another thread.
  void unwatch(Tag tag, int fd) noexcept;

  // Runs `task` on the thread, soon. After stop() it is dropped.
  void post(Handler task);
  // Runs `task` on the thread after a delay of about this much.
  void post_later(std::chrono::milliseconds delay, Handler task);

  void start();
  // Ends the thread and waits for it. Not from a handler.
  void stop() noexcept;
  // What the thread does over and over; for whoever does without the thread. Waits for at most this
  // long (-1: for ever) for something to do.
  void turn(std::chrono::milliseconds timeout);

 private:
  using Clock = std::chrono::steady_clock;
  struct Timer {
    Clock::time_point at;
    Handler task;
  };

  struct Watched {
    std::shared_ptr<Handler> handler;
    platform::Interest interest{};
  };

  void run();
  void dispatch(Tag tag);
  static void guarded(const Handler& handler);
  std::vector<Handler> take_due_tasks();
  std::chrono::milliseconds until_next_timer();

  platform::Poller poller_;
  platform::Fd wake_;
  std::mutex mutex_;
  std::unordered_map<Tag, Watched> watched_;
  std::vector<Handler> tasks_;
  std::vector<Timer> timers_;
  Tag next_tag_ = 1;  // 0 is wake_
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace tensorbus::bus
