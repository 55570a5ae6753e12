#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tensorbus/content.hpp>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/internal/calls.hpp>
#include <tensorbus/internal/deadline.hpp>
#include <tensorbus/internal/server.hpp>
#include <tensorbus/participant.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/typed_message.hpp>
#include <tensorbus/values/error.hpp>
#include <tensorbus/values/message_struct.hpp>
#include <tensorbus/values/outcome.hpp>
#include <tensorbus/values/service_error.hpp>
#include <utility>
#include <vector>

namespace tensorbus::inline v0 {

namespace internal {
class ServiceCall;
class ServiceSearch;
}  // namespace internal

struct ClientOptions {
  // The timeout of a call that has none of its own. It covers the search for the service and the
  // wait for the reply. If the service is already known, the time runs from the first wait.
  std::chrono::nanoseconds timeout = std::chrono::nanoseconds::max();
};

// Calls the service of this name, in C++ or Python, in any process of the domain. Tensors are sent
// by reference both ways. Any number of threads may call at once. Movable, not copyable; calls on a
// moved-from client throw Error(kClosed).
//
//   tensorbus::Client client("mean", {.timeout = std::chrono::seconds(5)});
//   tensorbus::Content reply = client.call({Value::Map{{"x", TensorIndex{0}}}, {loan.view()}});
//   double mean = reply.fields.as<double>();
//
// With structs declared by TENSORBUS_MESSAGE:
//
//   auto found = client.call<Detections>(ImageMessage{.data = loan.view(), .encoding = "rgb8"});
class Client {
 public:
  using Timeout = std::optional<std::chrono::nanoseconds>;  // empty: the timeout of the options

  explicit Client(const std::string& name, const ClientOptions& options = {},
                  const Participant& participant = Participant::shared())
      : state_(std::make_shared<State>(name, options, participant)) {}

  const std::string& name() const { return state().name; }

  // Returns the service's reply. Searches for a service if the client has no living one, and then
  // keeps using it. Throws
  //
  // - ServiceError if the service's callback failed;
  // - Error(kTimeout) if there was no service or no reply in time, or `give_up` returned true. The
  //   request may have been served; a late reply is discarded;
  // - Error(kClosed) at once if the service's process died, or closed the service, after it had
  //   accepted the request. The next call looks for another service;
  // - Error(kTypeMismatch) that shows both types if the service has other types;
  // - what Queue::put() throws if the request cannot be sent.
  Content call(const Content& request, Timeout timeout = {}, const GiveUp& give_up = {}) {
    return state().call(request, {}, timeout, give_up);
  }
  // Calls the service with structs. Also throws Error(kTypeMismatch) if a field of the reply has
  // another type.
  template <IsMessageStruct Reply, IsMessageStruct Request>
  Reply call(const Request& request, Timeout timeout = {}, const GiveUp& give_up = {}) {
    static const internal::CallTypes types{message_type<Request>(), message_type<Reply>()};
    return read_message<Reply>(state().call(Content(request), types, timeout, give_up));
  }

  // Waits until the service exists. Returns kDone, kTimedOut or kInterrupted.
  Outcome wait_for_service(std::chrono::nanoseconds timeout, const GiveUp& give_up = {}) {
    const internal::Deadline deadline(timeout);
    if (state().finder.found(deadline, give_up)) return Outcome::kDone;
    return deadline.passed() ? Outcome::kTimedOut : Outcome::kInterrupted;
  }

 private:
  friend class internal::ServiceCall;
  struct State {
    State(const std::string& of, const ClientOptions& given, const Participant& by)
        : name(of), options(given), participant(by), finder(of, by) {}

    Content call(const Content& request, const internal::CallTypes& types, Timeout timeout,
                 const GiveUp& give_up);
    internal::ReplyQueue idle_queue();
    void keep(internal::ReplyQueue queue);
    [[noreturn]] void fail_without_service() const;
    std::shared_ptr<internal::Server> asked(const Message& request,
                                            const internal::Deadline& deadline,
                                            const GiveUp& give_up);
    void require_done(Outcome outcome, internal::Server& server) const;

    const std::string name;
    const ClientOptions options;
    const Participant participant;
    internal::Finder finder;
    std::mutex mutex;
    // Reply queues that no call uses. A queue is stored here only after its reply has arrived, so a
    // late reply cannot reach another call. Guarded by the mutex.
    std::vector<internal::ReplyQueue> idle;
    // The search that awaited calls share, until another one begins. Guarded by the mutex.
    std::shared_ptr<internal::ServiceSearch> search;
  };
  State& state() const { return *internal::living(state_, "client"); }

  std::shared_ptr<State> state_;  // shared with the awaited calls
};

inline Content Client::State::call(const Content& request, const internal::CallTypes& types,
                                   Timeout timeout, const GiveUp& give_up) {
  internal::ReplyQueue replies = idle_queue();
  const internal::Packed packed = internal::request_of(replies.address(), types, request);
  std::chrono::nanoseconds left = timeout.value_or(options.timeout);
  auto server = finder.known();
  if (!server || !server->put_now(packed.message())) {  // the time runs from the first wait
    const internal::Deadline deadline(left);
    server = asked(packed.message(), deadline, give_up);
    left = deadline.remaining(std::chrono::nanoseconds::max());
  }
  Sample answer;
  require_done(server->get(replies, answer, left, give_up), *server);
  keep(std::move(replies));
  return internal::read_answer(name, answer);
}

// Returns the server that has accepted the request. If a server ended before it accepted the
// request, tries the next one.
inline std::shared_ptr<internal::Server> Client::State::asked(const Message& request,
                                                              const internal::Deadline& deadline,
                                                              const GiveUp& give_up) {
  while (const auto server = finder.found(deadline, give_up)) {
    const Outcome outcome = server->put(request, deadline, give_up);
    if (outcome == Outcome::kDone) return server;
    if (outcome != Outcome::kClosed) require_done(outcome, *server);
    server->found_gone();
  }
  fail_without_service();
}

inline void Client::State::fail_without_service() const {
  throw Error(Code::kTimeout, "there was no service '" + name + "' in time");
}

inline internal::ReplyQueue Client::State::idle_queue() {
  const std::lock_guard lock(mutex);
  if (idle.empty()) return internal::ReplyQueue(participant);
  internal::ReplyQueue queue = std::move(idle.back());
  idle.pop_back();
  return queue;
}

// Called when the reply to the queue's request has arrived.
inline void Client::State::keep(internal::ReplyQueue queue) {
  const std::lock_guard lock(mutex);
  idle.push_back(std::move(queue));
}

inline void Client::State::require_done(Outcome outcome, internal::Server& server) const {
  switch (outcome) {
    case Outcome::kDone:
      return;
    case Outcome::kClosed:
      server.found_gone();
      throw Error(Code::kClosed,
                  "service '" + name + "' has gone, or was closed, before it answered");
    case Outcome::kInterrupted:
      throw Error(Code::kTimeout, "the call to service '" + name + "' was cancelled");
    default:
      throw Error(Code::kTimeout, "service '" + name + "' has not answered in time");
  }
}

}  // namespace tensorbus::inline v0
