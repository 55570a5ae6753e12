#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tensorbus/content.hpp>
#include <tensorbus/error.hpp>
#include <tensorbus/internal/answers.hpp>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/internal/calls.hpp>
#include <tensorbus/internal/failure.hpp>
#include <tensorbus/internal/polling.hpp>
#include <tensorbus/message_struct.hpp>
#include <tensorbus/outcome.hpp>
#include <tensorbus/participant.hpp>
#include <tensorbus/queue.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/typed_message.hpp>
#include <utility>

namespace tensorbus::inline v0 {

// Counters of a service since it was made.
struct ServiceStats {
  std::uint64_t calls = 0;    // requests that came
  std::uint64_t failed = 0;   // whose callback threw, or whose reply could not be sent
  std::uint64_t refused = 0;  // of clients whose types are others
  std::uint64_t dropped = 0;  // that made no sense, and got no answer
};

// Answers the requests of clients in C++ and Python, in any process of the domain, one after the
// other, in the thread that drives it. Tensors travel by reference both ways.
//
//   tensorbus::Service service("mean", [](const tensorbus::Content& request) {
//     return tensorbus::Content(mean(request.tensor("x").as<float>()));
//   });
//   tensorbus::Executor executor;
//   executor.serve(std::move(service));
//   executor.run();
//
// With structs that TENSORBUS_MESSAGE knows:
//
//   auto service = tensorbus::Service::of<ImageMessage, Detections>("detect", detect);
//
// What the callback throws the client gets, as a ServiceError. Any number of processes may offer a
// service of one name: each client stays with one of them for as long as that lives. Clients that
// die, or are stopped, hold up nobody: it does not wait until answers have arrived, but at its end,
// and there for up to a second. Clients that wait for an answer then get Error(kClosed).
//
// One thread at a time. Moves, does not copy; of one that was moved from every call throws
// Error(kClosed).
class Service {
 public:
  using Callback = std::function<Content(Content)>;

  // Clients may ask from now on. Throws Error(kInvalidArgument) for an empty name, and
  // Error(kSystem) without descriptors left.
  Service(const std::string& name, Callback callback,
          const Participant& participant = Participant::shared())
      : Service(name, {}, std::move(callback), participant) {}
  // Of types: clients of others get Error(kTypeMismatch), which shows both.
  template <IsMessageStruct Request, IsMessageStruct Reply>
  static Service of(const std::string& name, std::function<Reply(const Request&)> callback,
                    const Participant& participant = Participant::shared());

  const std::string& name() const { return state().name; }
  ServiceStats stats() const { return state().stats; }

  // Calls back for the next request, if there is one now: kDone, or kTimedOut if there is none, or
  // kClosed if somebody closed the service's queue. Throws Error(kOutOfMemory) when there is no
  // room for a request; the next call goes on.
  Outcome try_serve();
  // For poll(), epoll and event loops: readable when try_serve() may find something. Call that
  // until it finds nothing.
  int descriptor() const { return state().ready.descriptor(); }

 private:
  struct State {
    State(const std::string& of, internal::CallTypes with, Callback by,
          const Participant& of_domain)
        : name(of),
          types(std::move(with)),
          callback(std::move(by)),
          queue({.name = internal::queue_of_service(of)}, of_domain),
          answers(of_domain) {
      listen();
    }

    void listen();
    Outcome take(Sample& sample);
    void serve(const Sample& sample);
    Content answer_to(internal::Request request);
    void give(const std::string& address, const Content& answer);

    const std::string name;
    const internal::CallTypes types;
    const Callback callback;
    Queue queue;
    internal::Answers answers;  // which end before the queue does
    internal::Epoll ready;
    std::optional<Queue::Pending> next;
    bool listening = false;  // or `next` has said all that it will
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

// The last one is readable until there is a new one, so that who polls comes again if that fails.
inline void Service::State::listen() {
  Queue::Pending asked = queue.start_get();
  if (next) ready.remove(next->descriptor());
  next.emplace(std::move(asked));
  ready.add(next->descriptor(), 0);
  listening = true;
}

inline Outcome Service::State::take(Sample& sample) {
  if (!listening) listen();
  listening = false;
  const Outcome outcome = next->take(sample);
  listening = outcome == Outcome::kTimedOut || outcome == Outcome::kClosed;
  return outcome;
}

inline void Service::State::serve(const Sample& sample) {
  ++stats.calls;
  try {
    internal::Request request = internal::read_request(sample);
    const std::string client = request.reply;
    give(client, answer_to(std::move(request)));
  } catch (const Error&) {  // it is none, or it names no queue for the answer
    ++stats.dropped;
  }
}

// Nothing that the callback throws gets out, whoever drives it.
inline Content Service::State::answer_to(internal::Request request) {
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

inline void Service::State::give(const std::string& address, const Content& answer) {
  try {
    answers.give(address, internal::Packed(answer).message());
  } catch (const Error&) {  // of the reply, unless the address is none
    const Content error = internal::error_answer(internal::current_failure());
    answers.give(address, internal::Packed(error).message());
    ++stats.failed;
  }
}

}  // namespace tensorbus::inline v0
