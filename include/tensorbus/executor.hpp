#pragma once

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <system_error>
#include <tensorbus/error.hpp>
#include <tensorbus/internal/fd.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/subscriber.hpp>
#include <utility>
#include <vector>
#if __has_include(<stop_token>)  // libc++ has it since LLVM 18
#include <stop_token>
#endif

namespace tensorbus::inline v0 {

// Calls back for the samples of its subscribers, one after the other, in the thread that drives it.
//
//   tensorbus::Executor executor;
//   executor.on_sample(tensorbus::Subscriber("camera/image"), [](const tensorbus::Sample& image) {
//     show(image.tensor().as<std::uint8_t>());
//   });
//   executor.run();  // here, until stop()
//
// In a thread of its own:
//
//   std::jthread thread([&](std::stop_token stop) { executor.run(stop); });
//
// In an event loop that is there already: when poll() finds descriptor() readable,
//
//   executor.poll_once(std::chrono::seconds(0));
//
// It takes its subscribers and closes them when it goes. One thread at a time drives it, and adds
// to it; stop() may come from any, and from a signal handler. Does not move: threads know it.
class Executor {
 public:
  // A callback that takes a Sample by value may keep it.
  using Callback = std::function<void(Sample)>;

  // Throws Error(kSystem) without descriptors left.
  Executor() { watch(wake_.get(), nullptr); }
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Also from inside a callback. Throws Error(kClosed) for a subscriber that was moved from, what
  // Subscriber::event_descriptor() throws, and Error(kSystem).
  void on_sample(Subscriber subscriber, Callback callback) {
    const int descriptor = subscriber.event_descriptor();  // readable now: what is there comes
    topics_.push_back(
        std::make_unique<Topic>(std::move(subscriber), std::move(callback), descriptor));
    try {
      watch(descriptor, topics_.back().get());
    } catch (...) {
      topics_.pop_back();
      throw;
    }
  }

  // Calls back for what there is, and waits up to `timeout` for something. At most 16 samples of
  // each subscriber, so that none has to wait for long. Returns how many there were: 0 if nothing
  // came in time, after stop(), and when a signal handler ran. Throws what a callback throws, whose
  // sample is gone then, and what Subscriber::try_receive() does; the rest comes with the next
  // call.
  std::size_t poll_once(std::chrono::nanoseconds timeout);

  // Until stop(), which ends the next call of run() if there is none now. Throws as poll_once().
  void run() {
    while (!stopping_.exchange(false, std::memory_order_relaxed)) (void)poll_once(kForever);
  }
#if defined(__cpp_lib_jthread)
  // The same, also until a stop is requested.
  void run(std::stop_token stop) {
    const std::stop_callback wake(stop, [this] { ring(); });
    while (!stop.stop_requested() && !stopping_.exchange(false, std::memory_order_relaxed))
      (void)poll_once(kForever);
  }
#endif
  void stop() noexcept {
    // Relaxed: the descriptor that is written orders it.
    stopping_.store(true, std::memory_order_relaxed);
    ring();
  }

  // For poll(), epoll and event loops: readable when poll_once() has something to do.
  int descriptor() const noexcept { return epoll_.get(); }

 private:
  static constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();
  static constexpr std::size_t kTurn = 16;

  struct Topic {
    Topic(Subscriber from, Callback call, int fd)
        : subscriber(std::move(from)), callback(std::move(call)), descriptor(fd) {}
    Subscriber subscriber;
    Callback callback;
    int descriptor;
  };

  void watch(int descriptor, Topic* topic) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = topic;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0)
      throw Error(Code::kSystem, "epoll_ctl: " + std::generic_category().message(errno));
  }
  void unwatch(Topic& topic) {
    (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, topic.descriptor, nullptr);
  }
  // An eventfd that is full is readable already.
  void ring() noexcept {
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
  }
  void hear_rings() noexcept {
    std::uint64_t rings = 0;
    (void)!::read(wake_.get(), &rings, sizeof rings);
  }

  std::size_t serve(Topic& topic);

  internal::Fd epoll_{::epoll_create1(EPOLL_CLOEXEC), "epoll_create1"};
  internal::Fd wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd"};
  std::atomic<bool> stopping_{false};
  std::vector<std::unique_ptr<Topic>> topics_;
};

namespace internal {

// As epoll has it: rounded up, so that nothing is polled for over and over at the end; -1 is never.
inline int milliseconds_of(std::chrono::nanoseconds timeout) noexcept {
  constexpr std::chrono::milliseconds kMost(std::numeric_limits<int>::max());
  if (timeout > kMost) return -1;
  return static_cast<int>(std::max(std::chrono::ceil<std::chrono::milliseconds>(timeout),
                                   std::chrono::milliseconds::zero())
                              .count());
}

}  // namespace internal

inline std::size_t Executor::poll_once(std::chrono::nanoseconds timeout) {
  std::array<epoll_event, 16> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 internal::milliseconds_of(timeout));
  if (count < 0 && errno != EINTR)
    throw Error(Code::kSystem, "epoll_wait: " + std::generic_category().message(errno));
  std::size_t calls = 0;
  for (int i = 0; i < count; ++i) {
    void* const topic = events[static_cast<std::size_t>(i)].data.ptr;
    if (topic == nullptr)
      hear_rings();
    else
      calls += serve(*static_cast<Topic*>(topic));
  }
  return calls;
}

inline std::size_t Executor::serve(Topic& topic) {
  for (std::size_t calls = 0; calls < kTurn; ++calls) {
    Sample sample;
    const Outcome outcome = topic.subscriber.try_receive(sample);
    if (outcome == Outcome::kHoldLimit)
      throw Error(Code::kInvalidArgument, "max_held samples of a publisher of \"" +
                                              topic.subscriber.topic() +
                                              "\" are held: let some go, or raise max_held");
    if (outcome == Outcome::kClosed) unwatch(topic);
    if (outcome != Outcome::kDone) return calls;
    topic.callback(std::move(sample));
  }
  return kTurn;
}

}  // namespace tensorbus::inline v0
