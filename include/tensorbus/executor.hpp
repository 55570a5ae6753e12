#pragma once

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tensorbus/async/awaited_call.hpp>
#include <tensorbus/async/task.hpp>
#include <tensorbus/client.hpp>
#include <tensorbus/content.hpp>
#include <tensorbus/internal/fd.hpp>
#include <tensorbus/internal/polling.hpp>
#include <tensorbus/parents.hpp>
#include <tensorbus/queue.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/service.hpp>
#include <tensorbus/subscriber.hpp>
#include <tensorbus/sync/time_synchronizer.hpp>
#include <tensorbus/values/error.hpp>
#include <tensorbus/values/outcome.hpp>
#include <utility>
#include <vector>
#if __has_include(<stop_token>)  // libc++ has it since LLVM 18
#include <stop_token>
#endif

namespace tensorbus::inline v0 {

// Calls callbacks for the samples of its subscribers and the requests of its services, one after
// the other, in the thread that drives it.
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
// In an existing event loop: when poll() finds descriptor() readable, call
//
//   executor.poll_once(std::chrono::seconds(0));
//
// It also runs coroutines, which wait for samples, items and replies of services as if they had a
// thread of their own: see Task.
//
// The executor owns its subscribers and services, and closes them in its destructor. Only one
// thread at a time may drive it, add and remove. stop() may be called in any thread and in a signal
// handler. The executor is not movable, because threads refer to it.
class Executor {
 public:
  // A callback that takes a Sample by value may keep it.
  using Callback = std::function<void(Sample)>;
  using SetCallback = std::function<void(std::vector<Sample>)>;
  // Identifies an added subscriber, synchronizer, service or coroutine; never reused.
  enum class Token : std::uint64_t {};

  // Throws Error(kSystem) if no descriptors are left.
  Executor() { epoll_.add(wake_.get(), kWake); }
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  ~Executor();

  // Adds a subscriber; may be called in a callback. Throws Error(kClosed) for a moved-from
  // subscriber, what Subscriber::event_descriptor() throws, and Error(kSystem).
  Token on_sample(Subscriber subscriber, Callback callback) {
    const int descriptor = subscriber.event_descriptor();  // readable at first
    return add(std::make_shared<Topic>(std::move(subscriber), std::move(callback)), descriptor);
  }
  // Adds a synchronizer: the callback gets its sets. Throws like on_sample().
  Token on_samples(TimeSynchronizer synchronizer, SetCallback callback) {
    const int descriptor = synchronizer.descriptor();
    return add(std::make_shared<Sets>(std::move(synchronizer), std::move(callback)), descriptor);
  }
  // Adds a service; may be called in a callback. Throws Error(kClosed) for a moved-from service,
  // and Error(kSystem).
  Token serve(Service service) {
    const int descriptor = service.descriptor();
    return add(std::make_shared<Requests>(std::move(service)), descriptor);
  }
#if defined(__cpp_impl_coroutine)
  // Runs a coroutine up to its first wait, here, and then in the thread that drives the executor.
  // stop() leaves it at its wait; another run() goes on. remove() and the destructor of the
  // executor destroy it there, with its local objects. Throws what the coroutine throws before its
  // first wait. What it throws later, poll_once() and run() throw.
  Token spawn(Task task);
  // To await in a coroutine of this executor: the next sample or item, or nothing if the subscriber
  // or the queue is closed or has ended. Throws what Subscriber::try_receive() and Queue::get()
  // throw, and Error(kInvalidArgument) in a coroutine of another executor. The subscriber or the
  // queue must outlive the wait, and only one coroutine may wait for a subscriber. If a coroutine
  // is destroyed while it waits for an item, the item stays in the queue.
  auto next(Subscriber& subscriber);
  auto next(Queue& queue);
  // To await in a coroutine of this executor: the reply of a service, as Client::call() returns it.
  // The request is sent here, if the client knows a living service; else a thread looks for one.
  // `timeout`: as in Client::call(); the time runs from here. `co_await` throws what Client::call()
  // throws. The client may be destroyed during the wait, and serve any number of calls. If a
  // coroutine is destroyed while it waits, a late reply is discarded. The destructor of the
  // client's last user (the client or a call) waits up to 50 ms for a search that has found
  // nothing.
  //
  //   const tensorbus::Content reply = co_await executor.call(client, {loan.view()});
  auto call(const Client& client, const Content& request, Client::Timeout timeout = {});
  template <IsMessageStruct Reply, IsMessageStruct Request>
  auto call(const Client& client, const Request& request, Client::Timeout timeout = {});
#endif
  // Removes and closes a subscriber or service; its callback is not called again. If the callback
  // itself removes it, it is closed when the callback returns. Also destroys a coroutine; one that
  // removes itself is destroyed at its next wait. Returns false if it was removed before.
  bool remove(Token token) {
    const auto found = sources_.find(token);
    if (found == sources_.end()) return false;
    unwatch(*found->second);
    const auto removed = sources_.extract(found);  // its objects may use the executor
    return true;
  }

  // Waits up to `timeout` for something to handle, then calls the callbacks: at most 16 times for
  // each subscriber and service, so that none waits for long. Returns the number of calls: 0 if
  // nothing arrived in time, after stop(), and if a signal handler ran. Throws what the callback of
  // a sample throws (this sample is not delivered again), and what Subscriber::try_receive() and
  // Service::try_serve() throw. The next call handles the samples and requests that are left.
  std::size_t poll_once(std::chrono::nanoseconds timeout);

  // Runs until stop(). A stop() before run() ends the next run() at once. Throws as poll_once().
  void run() {
    while (!stopping_.exchange(false, std::memory_order_relaxed)) (void)poll_once(kForever);
  }
#if defined(__cpp_lib_jthread)
  // Like run() above, but also ends when a stop is requested.
  void run(std::stop_token stop) {
    const std::stop_callback wake(stop, [this] { wake_up(); });
    while (!stop.stop_requested() && !stopping_.exchange(false, std::memory_order_relaxed))
      (void)poll_once(kForever);
  }
#endif
  void stop() noexcept {
    // Relaxed: writing the descriptor orders it.
    stopping_.store(true, std::memory_order_relaxed);
    wake_up();
  }

  // For poll(), epoll and event loops: readable when poll_once() has something to do.
  int descriptor() const noexcept { return epoll_.descriptor(); }

 private:
  static constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();
  static constexpr std::size_t kTurn = 16;
  static constexpr std::uint64_t kWake = 0;  // not a token

  // A subscriber or service with its callback.
  class Source {
   public:
    Source() = default;
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;
    virtual ~Source() = default;
    // kDone: called the callback. kTimedOut: nothing to handle now. kClosed: nothing more to
    // handle.
    virtual Outcome step() = 0;

    int descriptor = -1;  // its own descriptor, which is watched; -1: not any more
  };

  class Topic final : public Source {
   public:
    Topic(Subscriber from, Callback call)
        : subscriber_(std::move(from)), callback_(std::move(call)) {}
    Outcome step() override;

   private:
    Subscriber subscriber_;
    Callback callback_;
  };

  class Sets final : public Source {
   public:
    Sets(TimeSynchronizer from, SetCallback call)
        : synchronizer_(std::move(from)), callback_(std::move(call)) {}
    Outcome step() override;

   private:
    TimeSynchronizer synchronizer_;
    SetCallback callback_;
  };

  class Requests final : public Source {
   public:
    explicit Requests(Service service) : service_(std::move(service)) {}
    Outcome step() override { return service_.try_serve(); }

   private:
    Service service_;
  };

#if defined(__cpp_impl_coroutine)
  // A coroutine. Its descriptor is that of its present wait.
  class Coroutine final : public Source {
   public:
    Coroutine(Executor& executor, Token token, Task task)
        : executor_(executor), token_(token), task_(std::move(task)) {}
    Outcome step() override;
    void run();

    internal::Awaited* awaited = nullptr;  // in the frame of the coroutine

   private:
    Executor& executor_;
    const Token token_;
    Task task_;
  };

  template <typename Awaited>
  struct Awaiter {
    template <typename... Arguments>
    explicit Awaiter(Executor& by, Arguments&&... arguments)
        : executor(by), awaited(std::forward<Arguments>(arguments)...) {}

    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<Task::promise_type> waiting) {
      executor.wait(waiting.promise(), awaited);
    }
    auto await_resume() { return awaited.result(); }

    Executor& executor;
    Awaited awaited;
  };
  void wait(const Task::promise_type& task, internal::Awaited& awaited);
#endif

  Token add(std::shared_ptr<Source> source, int descriptor) {
    const Token token{++last_token_};
    Source& added = *sources_.emplace(token, std::move(source)).first->second;
    try {
      epoll_.add(descriptor, last_token_);
    } catch (...) {
      sources_.erase(token);
      throw;
    }
    added.descriptor = descriptor;
    return token;
  }
  void unwatch(Source& source) noexcept {
    if (source.descriptor >= 0) epoll_.remove(std::exchange(source.descriptor, -1));
  }
  // If the eventfd is full, it is readable already.
  void wake_up() noexcept {
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
  }
  void drain() noexcept {
    std::uint64_t wakes = 0;
    (void)!::read(wake_.get(), &wakes, sizeof wakes);
  }

  std::size_t turn_of(Token token);
  static Outcome take(Subscriber& subscriber, Sample& sample);

  internal::Epoll epoll_;
  internal::Fd wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd"};
  std::atomic<bool> stopping_{false};
  std::uint64_t last_token_ = kWake;
  std::map<Token, std::shared_ptr<Source>> sources_;  // shared with the present turn
};

inline std::size_t Executor::poll_once(std::chrono::nanoseconds timeout) {
  std::array<epoll_event, 16> room;
  std::size_t calls = 0;
  for (const epoll_event& event : epoll_.wait(room, timeout)) {
    if (event.data.u64 == kWake)
      drain();
    else
      calls += turn_of(Token{event.data.u64});
  }
  return calls;
}

// A callback may remove the source before its turn or during it.
inline std::size_t Executor::turn_of(Token token) {
  const auto found = sources_.find(token);
  if (found == sources_.end()) return 0;
  const std::shared_ptr<Source> source = found->second;
  for (std::size_t calls = 0; calls < kTurn; ++calls) {
    if (source->descriptor < 0) return calls;
    const Outcome outcome = source->step();
    if (outcome == Outcome::kClosed) unwatch(*source);
    if (outcome != Outcome::kDone) return calls;
  }
  return kTurn;
}

inline Outcome Executor::take(Subscriber& subscriber, Sample& sample) {
  const Outcome outcome = subscriber.try_receive(sample);
  if (outcome == Outcome::kHoldLimit)
    throw Error(Code::kInvalidArgument, "max_held samples of a publisher of \"" +
                                            subscriber.topic() +
                                            "\" are held: release some, or raise max_held");
  return outcome;
}

inline Outcome Executor::Topic::step() {
  Sample sample;
  const Outcome outcome = take(subscriber_, sample);
  if (outcome == Outcome::kDone) {
    const Parents parents(sample);
    callback_(std::move(sample));
  }
  return outcome;
}

inline Outcome Executor::Sets::step() {
  std::vector<Sample> set;
  const Outcome outcome = synchronizer_.try_receive(set);
  if (outcome == Outcome::kHoldLimit)
    throw Error(Code::kInvalidArgument,
                "max_held samples of a publisher are held: release some, or raise max_held");
  if (outcome == Outcome::kDone) {
    const Parents parents(set);
    callback_(std::move(set));
  }
  return outcome;
}

#if defined(__cpp_impl_coroutine)

inline Executor::Token Executor::spawn(Task task) {
  if (!task.handle_) throw Error(Code::kClosed, "this task was moved from");
  const Token token{++last_token_};
  task.handle_.promise().executor = this;
  task.handle_.promise().token = last_token_;
  const auto added = std::make_shared<Coroutine>(*this, token, std::move(task));
  sources_.emplace(token, added);
  added->run();
  return token;
}

inline auto Executor::next(Subscriber& subscriber) {
  const auto take = [&subscriber](Sample& sample) { return Executor::take(subscriber, sample); };
  return Awaiter<internal::AwaitedSample>(*this, take, subscriber.event_descriptor());
}

inline auto Executor::next(Queue& queue) {
  const auto pending = std::make_shared<Queue::Pending>(queue.start_get());
  const auto take = [pending](Sample& item) { return pending->take(item); };
  return Awaiter<internal::AwaitedSample>(*this, take, pending->descriptor());
}

inline auto Executor::call(const Client& client, const Content& request, Client::Timeout timeout) {
  return Awaiter<internal::AwaitedCall<Content>>(*this, client, internal::CallTypes(), request,
                                                 timeout);
}

template <IsMessageStruct Reply, IsMessageStruct Request>
auto Executor::call(const Client& client, const Request& request, Client::Timeout timeout) {
  static const internal::CallTypes types{message_type<Request>(), message_type<Reply>()};
  return Awaiter<internal::AwaitedCall<Reply>>(*this, client, types, Content(request), timeout);
}

// A task that was removed is left suspended: the caller of run() destroys it.
inline void Executor::wait(const Task::promise_type& task, internal::Awaited& awaited) {
  if (task.executor != this)
    throw Error(Code::kInvalidArgument, "this coroutine runs in another executor");
  const auto found = sources_.find(Token{task.token});
  if (found == sources_.end()) return;
  const int descriptor = awaited.descriptor();
  epoll_.add(descriptor, task.token);
  auto& waiting = static_cast<Coroutine&>(*found->second);
  waiting.descriptor = descriptor;
  waiting.awaited = &awaited;
}

inline Outcome Executor::Coroutine::step() {
  if (!awaited->look()) return Outcome::kTimedOut;
  executor_.unwatch(*this);
  const Parents parents(awaited->parents());
  run();
  return Outcome::kDone;
}

// Runs it up to its next wait. The caller keeps this object meanwhile.
inline void Executor::Coroutine::run() {
  try {
    task_.handle_.resume();
  } catch (...) {
    (void)executor_.remove(token_);
    throw;
  }
  if (task_.handle_.done()) (void)executor_.remove(token_);
}

#endif

// Local objects of a coroutine, and of callbacks, may still use the executor.
inline Executor::~Executor() {
  while (!sources_.empty()) (void)sources_.extract(sources_.begin());
}

}  // namespace tensorbus::inline v0
