#include "tensorbus/bus/queue_client/queue_get.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/bus/inspect/process_info.hpp"
#include "tensorbus/bus/queue/queue_table.hpp"
#include "tensorbus/bus/queue_client/queue_client.hpp"
#include "tensorbus/bus/queue_client/ring_sleep.hpp"
#include "tensorbus/bus/session/acquire_leases.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::chrono::milliseconds kTryAgain{20};
constexpr int kMaxRingLooks = 20;  // checks of owners that do not reply, one each kOfferPatience

std::uint32_t flags_of(QueueGet::Mode mode) {
  return (mode.waits ? link::Get::kWait : 0) | (mode.holds ? link::Get::kHold : 0);
}

}  // namespace

struct QueueGet::Asking : std::enable_shared_from_this<Asking> {
  ParticipantContext& context;
  const std::shared_ptr<PeerSession> server;
  const link::QueueName queue;
  const memory::Grant grant;
  const std::uint32_t flags;
  const std::weak_ptr<QueueRequest> asked;
  const Answer answer;
  std::shared_ptr<UnderWay::Request> under_way;  // counts the GET that is under way

  Asking(ParticipantContext& in, std::shared_ptr<PeerSession> of, const link::QueueName& name,
         memory::Grant granted, std::uint32_t how, const QueueRequestRef& request, Answer to,
         std::shared_ptr<UnderWay::Request> begun)
      : context(in),
        server(std::move(of)),
        queue(name),
        grant(granted),
        flags(how),
        asked(request),
        answer(std::move(to)),
        under_way(std::move(begun)) {}

  void on_answer(PeerSession::Answer& came) {
    if (under_way) under_way->end();
    if (const auto* lent = std::get_if<link::Lent>(&came))
      collect_offer(*lent);
    else if (auto* item = std::get_if<PeerSession::HeldItem>(&came))
      offer_here(std::move(*item));
    else if (const auto* error = std::get_if<Error>(&came))
      answer->fail(*error);
    else
      answer->set(QueueClient::outcome_of(std::get<link::Reply>(came)));
  }

  // If the caller has given up, cancel() notifies the server.
  void collect_offer(const link::Lent& lent) {
    const std::uint32_t request = lent.request;
    std::vector<Id> owners =
        acquire_leases(context, server, lent, grant,
                       {[self = shared_from_this(), request, number = lent.number](LentRef held) {
                          held->return_by(self->context.delayed);
                          if (self->is_current(request))
                            self->offer(request, std::move(held), number);
                        },
                        [self = shared_from_this(), request](const Error& error) {
                          if (self->is_current(request)) self->fail(request, error);
                        }});
    if (!answer->done()) wait_for_owners(request, std::move(owners), 1);
  }
  // Does not wait for an owner that is stopped. A running owner replies, even on a busy machine. If
  // an owner is dead, the queue's server hands the memory over, or the request fails.
  void wait_for_owners(std::uint32_t request, std::vector<Id> owners, int look) {
    const auto then = [self = shared_from_this(), request, owners = std::move(owners), look] {
      if (!self->is_current(request)) return;
      const auto stopped = [&](const Id& owner) { return self->may_be_stopped(owner); };
      if (look == kMaxRingLooks || std::ranges::any_of(owners, stopped))
        self->ask_for_another(request);
      else
        self->wait_for_owners(request, owners, look + 1);
    };
    context.loop.post_later(kOfferPatience, then);
  }
  bool may_be_stopped(const Id& owner) const {
    if (context.is_dead(owner)) return false;
    const auto stopped = std::make_shared<bool>(true);  // until the state is known
    context.reach(owner, [stopped](const std::shared_ptr<PeerSession>& reached) {
      const pid_t pid = reached ? reached->peer_memory()->account.pid() : 0;
      if (pid <= 0) return;  // in another pid namespace
      const std::string state = process_state(std::to_string(pid));
      *stopped = state == "is stopped" || state == "is being traced";
    });
    return *stopped;
  }

  // Returns true if the caller still waits for the reply to this request.
  bool is_current(std::uint32_t request) const {
    const auto known = asked.lock();
    return known && !known->cancelled && !answer->done() && known->request == request;
  }
  void offer(std::uint32_t request, LentRef held, std::uint64_t number) {
    answer->set(
        Offer{std::move(held), server->peer_memory()->channel, {request, queue, 0}, number});
  }
  void offer_here(PeerSession::HeldItem held) {
    if (is_current(held.request))
      answer->set(Offer{std::move(held.item),
                        server->peer_memory()->channel,
                        {held.request, queue, 0},
                        held.number,
                        true});
  }
  void fail(std::uint32_t request, const Error& error) {
    if (!answer->fail(error)) return;
    if (error.code() == Code::kOutOfMemory)
      server->cancel(request);
    else
      server->take({request, queue, 1});
  }
  void ask_for_another(std::uint32_t request) {
    server->cancel(request);
    if (under_way) under_way = under_way->again();
    if (const auto known = asked.lock())
      known->request = server->get(
          queue, flags,
          [self = shared_from_this()](PeerSession::Answer& came) { self->on_answer(came); });
  }
};

QueueGet::QueueGet(ParticipantContext& participant, const QueueAddress& address, Access access,
                   Mode mode, std::shared_ptr<UnderWay::Request> under_way,
                   const std::shared_ptr<Pinning>& pinning)
    : participant_(&participant),
      address_(address),
      access_(access),
      holds_(mode.holds),
      awaited_(std::make_shared<Completion<std::variant<Outcome, Offer>>>()),
      pin_(pinning ? std::make_unique<ItemPin>(participant, pinning) : nullptr) {
  const auto asking =
      std::make_shared<std::shared_ptr<Asking>>();  // null until the server is reached
  asked_ = ask_server(
      participant, address.server, mode.patience,
      [queue = address.queue, grant = grant_for(access), flags = flags_of(mode), answer = awaited_,
       under_way = std::move(under_way),
       asking](ParticipantContext& context, const std::shared_ptr<PeerSession>& server,
               const QueueRequestRef& asked, PeerSession::OnAnswer on_answer) {
        *asking = std::make_shared<Asking>(context, server, queue, grant, flags, asked, answer,
                                           under_way);
        return server->get(queue, flags, std::move(on_answer));
      },
      [answer = awaited_, asking](PeerSession::Answer& came) {
        if (*asking)
          (*asking)->on_answer(came);
        else if (const auto* error = std::get_if<Error>(&came))
          answer->fail(*error);
        else  // cancelled before it was sent
          answer->set(QueueClient::outcome_of(std::get<link::Reply>(came)));
      });
}

Outcome QueueGet::take(Sample& item, const platform::StopCondition& stop, EventLoop::Driver* driver,
                       CompletionState* life) {
  if (answered_) return Outcome::kTimedOut;
  Outcome outcome = offer_ ? Outcome::kDone : wait_for_offer(stop, driver, life);
  if (outcome == Outcome::kDone && !read_) outcome = read(stop);
  if (outcome == Outcome::kDone && pin_) {
    outcome = pin_->pin(*read_, stop, driver);
    if (outcome == Outcome::kDone) pin_.reset();
  }
  if (outcome == Outcome::kDone && !holds_) {
    outcome = send_acceptance(stop);
    if (outcome == Outcome::kDone)
      participant_->taken_items.add({address_.server, address_.queue.number}, offer_->number);
  }
  if (outcome == Outcome::kDone) {
    item = *std::exchange(read_, std::nullopt);
    answered_ = true;
  }
  return outcome;
}

void QueueGet::require_held() const {
  if (!holds_ || !was_read_ || over_) throw Error(Code::kInvalidArgument, "this get holds no item");
}

Outcome QueueGet::accept(const platform::StopCondition& stop) {
  require_held();
  return send_acceptance(stop);
}

void QueueGet::spoil() {
  require_held();
  send_spoilt();
}

Outcome QueueGet::wait_for_offer(const platform::StopCondition& stop, EventLoop::Driver* driver,
                                 CompletionState* life) {
  const auto sleep = [&](auto most) { return sleep_on_rings(stop, most, life); };
  const Outcome outcome =
      driver != nullptr ? awaited_->wait(stop, *driver, life, sleep) : awaited_->wait(stop);
  if (outcome != Outcome::kDone) return outcome;
  std::optional<std::variant<Outcome, Offer>> found = awaited_->left();
  if (!found) return Outcome::kTimedOut;
  if (const auto* none = std::get_if<Outcome>(&*found)) {
    answered_ = true;
    return *none;
  }
  offer_ = std::get<Offer>(std::move(*found));
  reading_.emplace(*participant_, std::move(offer_->held), access_, offer_->is_here);
  return Outcome::kDone;
}

std::optional<platform::FutexWait> QueueGet::sleep_on_rings(const platform::StopCondition& stop,
                                                            std::chrono::nanoseconds most,
                                                            CompletionState* other) {
  const bool is_here = address_.server == participant_->self;
  if (!is_here || !stop.give_up() || awaited() != awaited_.get()) return std::nullopt;
  std::vector<CompletionState*> until{awaited_.get()};
  if (other != nullptr) until.push_back(other);
  return bus::sleep_on_rings(*participant_, address_.queue, until, most);
}

Outcome QueueGet::read(const platform::StopCondition& stop) {
  try {
    Sample sample;
    const Outcome outcome = reading_->read(sample, stop);
    if (outcome == Outcome::kDone) {
      read_.emplace(std::move(sample));
      was_read_ = true;
    }
    return outcome;
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory)
      cancel();
    else
      send_spoilt();
    throw;
  } catch (const std::bad_alloc&) {
    cancel();
    throw;
  }
}

// Sends the acceptance. Once the socket has it, the server gets it, even if this process dies.
Outcome QueueGet::send_acceptance(const platform::StopCondition& stop) {
  if (offer_->server->is_loop_back()) {  // a send here would wake the loop's own thread
    participant_->run_or_post([server = offer_->server, acceptance = offer_->acceptance](
                                  ParticipantContext&) { server->send(acceptance); });
    over_ = true;
    return Outcome::kDone;
  }
  const Outcome outcome = stop.wait([this] { return offer_->server->try_send(offer_->acceptance); },
                                    [this](std::chrono::nanoseconds most) {
                                      platform::wait_until_writable(offer_->server->fd(), most);
                                      return platform::FutexWait::kWoken;
                                    });
  if (outcome == Outcome::kDone) over_ = true;
  return outcome;
}

void QueueGet::send_spoilt() {
  if (std::exchange(over_, true)) return;
  offer_->acceptance.spoilt = 1;
  offer_->server->send(offer_->acceptance);
}

void QueueGet::on_ready(std::function<void()> tell) {
  if (was_read_ && pin_)
    pin_->on_ready(std::move(tell));
  else if (was_read_)  // the socket was full: the offer is not accepted yet
    participant_->post([tell = std::move(tell)](ParticipantContext& context) {
      context.loop.post_later(kTryAgain, tell);
    });
  else if (reading_)
    reading_->on_ready(std::move(tell));
  else
    awaited_->on_done(std::move(tell));
}

void QueueGet::cancel() {
  if (std::exchange(over_, true)) return;
  (void)awaited_->give_up();
  const auto left = awaited_->left();
  if (left && std::holds_alternative<Outcome>(*left)) return;  // nothing to refuse
  if (reading_) (void)reading_->give_up();
  pin_.reset();
  read_.reset();
  cancel_request(*participant_, asked_, was_read_);
}

}  // namespace tensorbus::bus
