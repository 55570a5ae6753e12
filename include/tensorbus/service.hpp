#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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

namespace tensorbus::inline v0 {

// Counters of a service since it was made.
struct ServiceStats {
  std::uint64_t calls = 0;    // received requests
  std::uint64_t failed = 0;   // the callback threw, or the reply could not be sent
  std::uint64_t refused = 0;  // from clients with other types
  std::uint64_t dropped = 0;  // invalid requests, without a reply
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

  // Opens the service: clients can call from now on. Throws Error(kInvalidArgument) for an empty
  // name, and Error(kSystem) if no descriptors are left.
  Service(const std::string& name, Callback callback,
          const Participant& participant = Participant::shared())
      : Service(name, {}, std::move(callback), participant) {}
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
    State(const std::string& of, internal::CallTypes with, Callback by,
          const Participant& of_domain)
        : name(of),
          types(std::move(with)),
          callback(std::move(by)),
          queue({.name = internal::queue_of_service(of)}, of_domain),
          answers(of_domain) {}

    void listen();
    Outcome take(Sample& sample);
    Outcome wait(Sample& sample, std::chrono::nanoseconds timeout, const GiveUp& give_up);
    void serve(const Sample& sample);
    internal::Packed answer_to(internal::Request request);
    void give(const std::string& address, const internal::Packed& answer);

    const std::string name;
    const internal::CallTypes types;
    const Callback callback;
    Queue queue;
    internal::Answers answers;  // destroyed before the queue
    internal::Epoll ready;
    std::optional<Queue::Pending> next;  // only once the descriptor is used
    bool listening = false;              // false when `next` has finished
    ServiceStats stats;
  };

  Service(const std::string& name, internal::CallTypes types, Callback callback,
          const Participant& participant)
      : state_(std::make_unique<State>(name, std::move(types), std::move(callback), participant)) {}
  State& state() const { return *internal::living(state_, "service"); }

  std::unique_ptr<State> state_;
};

template <IsMessageStruct Request, IsMessageStruct Reply>
Service Service::of(const std::string& name, std::function<Reply(const Request&)> callback,
                    const Participant& participant) {
  return Service(
      name, {message_type<Request>(), message_type<Reply>()},
      [callback = std::move(callback)](const Content& request) {
        return Content(callback(read_message<Request>(request)));
      },
      participant);
}

inline Outcome Service::try_serve() {
  Sample sample;
  const Outcome outcome = state().take(sample);
  if (outcome == Outcome::kDone) state().serve(sample);
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
  if (outcome == Outcome::kDone) serving.serve(sample);
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

inline void Service::State::serve(const Sample& sample) {
  ++stats.calls;
  try {
    internal::Request request = internal::read_request(sample);
    const std::string client = request.reply;
    give(client, answer_to(std::move(request)));
  } catch (const Error&) {  // not a request, or no queue for the reply
    ++stats.dropped;
  }
}

// Converts an exception of the callback, and of encoding the reply, to an error reply. The thread
// that drives the service gets no exception.
inline internal::Packed Service::State::answer_to(internal::Request request) {
  const std::string why = internal::why_not(types, request.definitions);
  if (!why.empty()) {
    ++stats.refused;
    return internal::mismatch_answer(why);
  }
  try {
    return internal::data_answer(callback(std::move(request.data)));
  } catch (...) {
    ++stats.failed;
    return internal::error_answer(internal::current_failure());
  }
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
