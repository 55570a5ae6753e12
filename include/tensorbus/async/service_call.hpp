#pragma once

#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <tensorbus/async/service_search.hpp>
#include <tensorbus/client.hpp>
#include <tensorbus/content.hpp>
#include <tensorbus/internal/asking.hpp>
#include <tensorbus/internal/calls.hpp>
#include <tensorbus/internal/deadline.hpp>
#include <tensorbus/internal/fd.hpp>
#include <tensorbus/internal/polling.hpp>
#include <tensorbus/internal/server.hpp>
#include <tensorbus/queue.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/values/error.hpp>
#include <tensorbus/values/outcome.hpp>
#include <utility>

namespace tensorbus::inline v0 {
namespace internal {

// A call of a service that waits for nothing: its descriptor is readable when look() may go on. It
// takes these steps:
//
//   kSearching  no living service is known, and a thread looks for one
//     found: the request is sent
//   kPutting    the request was sent to the service's queue
//     accepted -> kAnswering; the service has gone -> kSearching
//   kAnswering  the reply may come: done; or the end of the service's process comes first
//
// Destroying it gives the call up: a late reply is discarded. It keeps what it needs of the client,
// which may be destroyed. For one thread.
class ServiceCall {
 public:
  // Throws what Client::call() throws before its first wait, and Error(kSystem).
  ServiceCall(const Client& client, const CallTypes& types, const Content& request,
              Client::Timeout timeout)
      : client_(state_of(client)),
        deadline_(timeout.value_or(client_->options.timeout)),
        replies_(client_->idle_queue()),
        packed_(request_of(replies_->address(), types, request)) {
    end_at(deadline_);
    send();
  }
  ServiceCall(const ServiceCall&) = delete;
  ServiceCall& operator=(const ServiceCall&) = delete;

  int descriptor() const noexcept { return epoll_.descriptor(); }

  // Returns the reply, or nothing if it has not come yet. Throws like Client::call().
  std::optional<Content> look() {
    while (go_on()) {
    }
    if (answer_) return read_answer(client_->name, *answer_);
    if (!ends_at_.passed()) return std::nullopt;
    if (step_ == Step::kSearching) client_->fail_without_service();
    client_->require_done(is_cut_ ? Outcome::kClosed : Outcome::kTimedOut, *server_);
    return std::nullopt;
  }

 private:
  enum class Step { kSearching, kPutting, kAnswering };

  // Throws if the client was moved from.
  static const std::shared_ptr<Client::State>& state_of(const Client& client) {
    (void)client.state();
    return client.state_;
  }
  // Returns true if it took a step.
  bool go_on() {
    if (answer_) return false;
    switch (step_) {
      case Step::kSearching:
        return search_on();
      case Step::kPutting:
        return put_on();
      case Step::kAnswering:
        return answer_on();
    }
    return false;
  }

  void send() {
    server_ = client_->finder.known();
    if (!server_) return search();
    if (server_->put_now(packed_.message())) return await_answer();
    step_ = Step::kPutting;
    watch(request_.emplace(server_->start_put(packed_.message())).descriptor());
  }
  // Joins the search of other calls, or begins one.
  void search() {
    step_ = Step::kSearching;
    std::shared_ptr<ServiceSearch> ended;  // its destructor waits, so it must not hold the mutex
    {
      const std::lock_guard lock(client_->mutex);
      if (client_->search && client_->search->over()) ended = std::move(client_->search);
      const bool begins = !client_->search;
      if (begins) client_->search = std::make_shared<ServiceSearch>(client_->finder);
      search_.emplace(client_->search, begins);
    }
    watch((*search_)->descriptor());
  }
  bool search_on() {
    const ServiceSearch& ended = **search_;
    if (!ended.over()) return false;
    unwatch(ended.descriptor());
    ended.rethrow();
    search_.reset();
    send();
    return true;
  }
  bool put_on() {
    Sample none;
    const Outcome outcome = request_->take(none);
    if (outcome == Outcome::kTimedOut) return false;
    end_request();
    if (outcome == Outcome::kDone) {
      await_answer();
    } else if (outcome == Outcome::kClosed) {
      server_->found_gone();
      send();
    } else {
      client_->require_done(outcome, *server_);
    }
    return true;
  }
  void await_answer() {
    step_ = Step::kAnswering;
    watch(request_.emplace(replies_->start_get()).descriptor());
    watch(server_->lifeline().descriptor());
  }
  bool answer_on() {
    Sample answer;
    const Outcome outcome = request_->take(answer);
    if (outcome == Outcome::kDone) {
      answer_ = std::move(answer);
      end_request();
      if (!is_cut_) unwatch(server_->lifeline().descriptor());
      replies_->count_answer();
      client_->keep(*std::exchange(replies_, std::nullopt));
      return true;
    }
    if (outcome != Outcome::kTimedOut) client_->require_done(outcome, *server_);
    if (is_cut_ || !server_->lifeline().cut()) return false;
    if (!replies_->has_come()) client_->require_done(Outcome::kClosed, *server_);
    is_cut_ = true;
    unwatch(server_->lifeline().descriptor());
    end_at(Deadline(deadline_.remaining(ReplyQueue::kMoment)));
    return true;
  }
  void end_request() {
    unwatch(request_->descriptor());
    request_.reset();
  }

  void watch(int descriptor) { epoll_.add(descriptor, 0); }
  void unwatch(int descriptor) noexcept { epoll_.remove(descriptor); }
  // Makes the descriptor readable at this time.
  void end_at(const Deadline& end) {
    ends_at_ = end;
    const auto left = end.remaining(std::chrono::nanoseconds::max());
    if (left == std::chrono::nanoseconds::max()) return;
    if (!timer_) {
      timer_.emplace(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
                     "timerfd_create");
      watch(timer_->get());
    }
    const auto at = std::max(left, std::chrono::nanoseconds(1));  // 0 would stop the timer
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at);
    itimerspec set{};
    set.it_value.tv_sec = static_cast<time_t>(seconds.count());
    set.it_value.tv_nsec = static_cast<long>((at - seconds).count());
    if (::timerfd_settime(timer_->get(), 0, &set, nullptr) != 0)
      throw Error(Code::kSystem, "timerfd_settime: " + std::generic_category().message(errno));
  }

  const std::shared_ptr<Client::State> client_;
  const Deadline deadline_;
  Deadline ends_at_ = deadline_;
  std::optional<ReplyQueue> replies_;  // until the reply has come
  const Packed packed_;
  Step step_ = Step::kSearching;
  std::shared_ptr<Server> server_;
  std::optional<ServiceSearch::Waiter> search_;  // set while searching
  std::optional<Queue::Pending> request_;        // set while putting and answering
  std::optional<Sample> answer_;
  bool is_cut_ = false;  // the service's process has ended, and its reply is on its way
  std::optional<Fd> timer_;
  Epoll epoll_;
};

}  // namespace internal
}  // namespace tensorbus::inline v0
