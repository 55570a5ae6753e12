#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tensorbus/content.hpp>
#include <tensorbus/internal/answers.hpp>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/internal/calls.hpp>
#include <tensorbus/internal/failure.hpp>
#include <tensorbus/internal/polling.hpp>
#include <tensorbus/participant.hpp>
#include <tensorbus/queue.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/typed_message.hpp>
#include <tensorbus/values/error.hpp>
#include <tensorbus/values/message_struct.hpp>
#include <tensorbus/values/outcome.hpp>
#include <utility>
#include <vector>

namespace tensorbus::inline v0 {

// Counters of a service since it was made.
struct ServiceStats {
  std::uint64_t calls = 0;    // received requests
  std::uint64_t failed = 0;   // the callback threw, or the reply could not be sent
  std::uint64_t refused = 0;  // from clients with other types
  std::uint64_t dropped = 0;  // invalid requests, without a reply
  std::uint64_t batches = 0;  // calls of the callback
};

// How a service with batches collects requests.
struct ServiceOptions {
  std::size_t batch = 1;  // the maximum of requests for one call of the callback
  // How long serve() waits for further requests after the first one. try_serve() and executors take
  // those that wait already.
  std::chrono::nanoseconds max_wait{0};
};

// Replies to requests of clients in C++ and Python, in any process of the domain, one after the
// other, in the thread that drives it. Tensors are sent by reference both ways.
//
//   tensorbus::Service service("mean", [](const tensorbus::Content& request) {
//     return tensorbus::Content(mean(request.tensor("x").as<float>()));
//   });
//   tensorbus::Executor executor;
//   executor.serve(std::move(service));
//   executor.run();
//
// With structs declared by TENSORBUS_MESSAGE:
//
//   auto service = tensorbus::Service::of<ImageMessage, Detections>("detect", detect);
//
// For a model that is faster with many inputs at once:
//
//   auto service = tensorbus::Service::batched("classify", classify_all, {.batch = 32});
//
// If the callback throws, the client throws a ServiceError. Any number of processes may offer a
// service of the same name. Each client uses one of them until that process ends. Dead or stopped
// clients do not delay other clients, because the service does not wait until its replies have
// arrived. Only its destructor waits, for up to a second. Clients that are still waiting then get
// Error(kClosed).
//
// For one thread at a time. Movable, not copyable; calls on a moved-from service throw
// Error(kClosed).
class Service {
 public:
  using Callback = std::function<Content(Content)>;
  // Returns a reply for each request, in their order.
  using BatchCallback = std::function<std::vector<Content>(std::span<Content>)>;

  // Opens the service: clients can call from now on. Throws Error(kInvalidArgument) for an empty
  // name, and Error(kSystem) if no descriptors are left.
  Service(const std::string& name, Callback callback,
          const Participant& participant = Participant::shared())
      : Service(name, {}, one_by_one(std::move(callback)), {.batch = 1}, participant) {}
  // With batches: the callback gets the requests of several clients at once. If it throws, or
  // returns another number of replies, each of these clients throws a ServiceError. Also throws
  // Error(kInvalidArgument) for a batch of 0, and for a negative max_wait.
  static Service batched(const std::string& name, BatchCallback callback,
                         const ServiceOptions& options,
                         const Participant& participant = Participant::shared()) {
    return Service(name, {}, std::move(callback), options, participant);
  }
  // With types: clients with other types get Error(kTypeMismatch), which shows both.
  template <IsMessageStruct Request, IsMessageStruct Reply>
  static Service of(const std::string& name, std::function<Reply(const Request&)> callback,
                    const Participant& participant = Participant::shared());

  const std::string& name() const { return state().name; }
  ServiceStats stats() const { return state().stats; }

  // Serves the next request if one is waiting. Returns kDone, kTimedOut if there is none, or
  // kClosed if the service's queue was closed. Throws Error(kOutOfMemory) if there is no room for a
  // request; the next call tries again.
  Outcome try_serve();
  // Waits for a request and serves it. This is the fastest way for a thread that has no other work,
  // unless descriptor() was called. Returns kDone, kTimedOut, kInterrupted (`give_up` returned
  // true; a signal handler does not end it) or kClosed. Throws as try_serve() does.
  Outcome serve(std::chrono::nanoseconds timeout, const GiveUp& give_up = {});
  // For poll(), epoll and event loops: readable when try_serve() may find something. Call
  // try_serve() until it finds nothing.
  int descriptor() const {
    if (!state().next) state().listen();
    return state().ready.descriptor();
  }

 private:
  struct State {
    State(const std::string& of, internal::CallTypes with, BatchCallback by,
          const ServiceOptions& given, const Participant& of_domain)
        : name(of),
          types(std::move(with)),
          callback(std::move(by)),
          options(given),
          queue({.name = internal::queue_of_service(of)}, of_domain),
          answers(of_domain) {}

    void listen();
    Outcome take(Sample& sample);
    Outcome wait(Sample& sample, std::chrono::nanoseconds timeout, const GiveUp& give_up);
    void serve(Sample first, std::chrono::nanoseconds max_wait, const GiveUp& give_up);
    void read(const Sample& sample, std::vector<internal::Request>& requests);
    void answer(std::vector<internal::Request>& requests);
    std::vector<Content> replies_to(std::vector<internal::Request>& requests);
    internal::Packed failed_answer();
    void give(const std::string& address, const internal::Packed& answer);

    const std::string name;
    const internal::CallTypes types;
    const BatchCallback callback;
    const ServiceOptions options;
    Queue queue;
    internal::Answers answers;  // destroyed before the queue
    internal::Epoll ready;
    std::optional<Queue::Pending> next;  // only once the descriptor is used
    bool listening = false;              // false when `next` has finished
    ServiceStats stats;
  };

  Service(const std::string& name, internal::CallTypes types, BatchCallback callback,
          const ServiceOptions& options, const Participant& participant) {
    if (options.batch == 0 || options.max_wait.count() < 0)
      throw Error(Code::kInvalidArgument, "batch must be at least 1, and max_wait at least 0");
    state_ =
        std::make_unique<State>(name, std::move(types), std::move(callback), options, participant);
  }
  static BatchCallback one_by_one(Callback callback) {
    return [callback = std::move(callback)](std::span<Content> requests) {
      std::vector<Content> replies;
      for (Content& request : requests) replies.push_back(callback(std::move(request)));
      return replies;
    };
  }
  State& state() const { return *internal::living(state_, "service"); }

  std::unique_ptr<State> state_;
};

template <IsMessageStruct Request, IsMessageStruct Reply>
Service Service::of(const std::string& name, std::function<Reply(const Request&)> callback,
                    const Participant& participant) {
  return Service(name, {message_type<Request>(), message_type<Reply>()},
                 one_by_one([callback = std::move(callback)](const Content& request) {
                   return Content(callback(read_message<Request>(request)));
                 }),
                 {.batch = 1}, participant);
}

inline Outcome Service::try_serve() {
  Sample sample;
  const Outcome outcome = state().take(sample);
  if (outcome == Outcome::kDone) state().serve(std::move(sample), {}, {});
  return outcome;
}

inline Outcome Service::serve(std::chrono::nanoseconds timeout, const GiveUp& give_up) {
  State& serving = state();
  Sample sample;
  Outcome outcome = Outcome::kTimedOut;
  if (serving.next)
    outcome = serving.wait(sample, timeout, give_up);
  else
    outcome = serving.queue.get(sample, timeout, internal::over_signals(give_up));
  if (outcome == Outcome::kDone)
    serving.serve(std::move(sample), serving.options.max_wait, give_up);
  return outcome;
}

// Replaces the finished request in `ready`. If that fails, the finished request stays readable, so
// that a polling caller tries again.
inline void Service::State::listen() {
  Queue::Pending asked = queue.start_get();
  if (next) ready.remove(next->descriptor());
  ready.add(asked.descriptor(), 0);
  next.emplace(std::move(asked));
  listening = true;
}

inline Outcome Service::State::take(Sample& sample) {
  if (!next) return queue.get(sample, std::chrono::nanoseconds::zero());
  if (!listening) listen();
  listening = false;
  const Outcome outcome = next->take(sample);
  listening = outcome == Outcome::kTimedOut || outcome == Outcome::kClosed;
  return outcome;
}

inline Outcome Service::State::wait(Sample& sample, std::chrono::nanoseconds timeout,
                                    const GiveUp& give_up) {
  if (!listening) listen();
  listening = false;
  const Outcome outcome = internal::wait_for(*next, sample, internal::Deadline(timeout), give_up);
  listening = outcome != Outcome::kDone && outcome != Outcome::kShutDown;
  return outcome;
}

// Takes further requests until the batch is full, or `max_wait` is over. An error that prevents
// this is thrown by the next call.
inline void Service::State::serve(Sample first, std::chrono::nanoseconds max_wait,
                                  const GiveUp& give_up) {
  std::vector<internal::Request> requests;
  read(first, requests);
  const internal::Deadline end(max_wait);
  try {
    Sample sample;
    const auto take_next = [&] {
      const auto left = end.remaining(std::chrono::nanoseconds::max());
      return queue.get(sample, left, internal::over_signals(give_up)) == Outcome::kDone;
    };
    while (requests.size() < options.batch && take_next()) read(sample, requests);
  } catch (const Error&) {
  }
  if (!requests.empty()) answer(requests);
}

// Adds a request to the batch. Replies to one of other types.
inline void Service::State::read(const Sample& sample, std::vector<internal::Request>& requests) {
  ++stats.calls;
  try {
    internal::Request request = internal::read_request(sample);
    const std::string why = internal::why_not(types, request.definitions);
    if (why.empty()) return requests.push_back(std::move(request));
    ++stats.refused;
    answers.give(request.reply, internal::mismatch_answer(why).message());
  } catch (const Error&) {  // not a request, or no queue for the reply
    ++stats.dropped;
  }
}

inline void Service::State::answer(std::vector<internal::Request>& requests) {
  std::vector<internal::Packed> replies;
  replies.reserve(requests.size());
  try {
    for (Content& reply : replies_to(requests)) {
      try {
        replies.push_back(internal::data_answer(std::move(reply)));
      } catch (...) {
        replies.push_back(failed_answer());
      }
    }
  } catch (...) {  // of the callback: the thread that drives the service gets no exception
    for (std::size_t i = 0; i < requests.size(); ++i) replies.push_back(failed_answer());
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    try {
      give(requests[i].reply, replies[i]);
    } catch (const Error&) {  // no queue for the reply
      ++stats.dropped;
    }
  }
}

inline std::vector<Content> Service::State::replies_to(std::vector<internal::Request>& requests) {
  std::vector<Content> given;
  given.reserve(requests.size());
  for (internal::Request& request : requests) given.push_back(std::move(request.data));
  ++stats.batches;
  std::vector<Content> replies = callback(given);
  if (replies.size() != requests.size())
    throw Error(Code::kInvalidArgument, "the callback of service '" + name + "' returned " +
                                            std::to_string(replies.size()) + " replies to " +
                                            std::to_string(requests.size()) + " requests");
  return replies;
}

// The reply with the exception that is handled now.
inline internal::Packed Service::State::failed_answer() {
  ++stats.failed;
  return internal::error_answer(internal::current_failure());
}

inline void Service::State::give(const std::string& address, const internal::Packed& answer) {
  try {
    answers.give(address, answer.message());
  } catch (const Error&) {  // of the reply, or the address is invalid
    const auto error = internal::error_answer(internal::current_failure());
    answers.give(address, error.message());
    ++stats.failed;
  }
}

}  // namespace tensorbus::inline v0
