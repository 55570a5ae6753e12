#include "tensorbus/bus/queue_get.hpp"

#include <new>
#include <utility>

#include "tensorbus/bus/collect.hpp"
#include "tensorbus/bus/onward.hpp"
#include "tensorbus/platform/clock.hpp"

namespace tensorbus::bus {
namespace {

memory::Grant grant_for(Access access) {
  return access == Access::kShared ? memory::Grant::kWrite : memory::Grant::kRead;
}

// On the service thread.
void put_back_to(Surroundings& surroundings, Exchange& host, const link::QueueName& queue,
                 const HeldRef& held, std::uint64_t number, memory::Grant grant) {
  const Onward item = onward(surroundings, held, grant);
  host.put(
      queue, link::Put::kCameBack, item.entry, item.issued, grant, [](Exchange::Answer&) {},
      number);
}

}  // namespace

QueueGet::QueueGet(ParticipantCore& core, const QueueAddress& address, Access access, bool waits)
    : core_(&core),
      address_(address),
      access_(access),
      awaited_(std::make_shared<Awaited<std::optional<Item>>>()) {
  asked_ = ask_host(
      core, address.host,
      [address, grant = grant_for(access), waits, answer = awaited_](
          Surroundings& surroundings, const std::shared_ptr<Exchange>& host) {
        return start(surroundings, host, address, grant, waits, answer);
      },
      [answer = awaited_](const Error& error) { answer->fail(error); });
}

std::uint32_t QueueGet::start(Surroundings& surroundings, const std::shared_ptr<Exchange>& host,
                              const QueueAddress& address, memory::Grant grant, bool waits,
                              const Answer& answer) {
  const auto fail = [answer](const Error& error) { answer->fail(error); };
  const auto on_held = [&surroundings, host, address, grant, answer](HeldRef held,
                                                                     std::uint64_t number) {
    if (!answer->set(Item{held, number}))
      put_back_to(surroundings, *host, address.queue, held, number, grant);
  };
  const auto on_answer = [&surroundings, host, grant, answer, on_held,
                          fail](Exchange::Answer& came) {
    if (const auto* lent = std::get_if<link::Lent>(&came))
      collect(surroundings, host, *lent, grant,
              {[on_held, number = lent->number](HeldRef held) { on_held(std::move(held), number); },
               fail});
    else if (const auto* error = std::get_if<Error>(&came))
      fail(*error);
    else
      answer->set(std::nullopt);
  };
  return host->get(address.queue, waits ? link::Get::kWait : 0, on_answer);
}

Outcome QueueGet::take(Sample& item, std::chrono::nanoseconds timeout, const GiveUp& give_up) {
  const platform::Deadline deadline(timeout);
  if (!reading_) {
    const Outcome outcome = wait_for_item(timeout, give_up);
    if (outcome != Outcome::kDone) return outcome;
  }
  try {
    return reading_->read(item, deadline.remaining(std::chrono::nanoseconds::max()), give_up);
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) cancel();
    throw;
  } catch (const std::bad_alloc&) {
    cancel();
    throw;
  }
}

Outcome QueueGet::wait_for_item(std::chrono::nanoseconds timeout, const GiveUp& give_up) {
  const Outcome outcome = awaited_->wait(timeout, give_up);
  if (outcome != Outcome::kDone) return outcome;
  std::optional<std::optional<Item>> found = awaited_->left();
  if (!found || !*found) return Outcome::kTimedOut;
  number_ = (*found)->number;
  reading_.emplace(*core_, std::move((*found)->held), access_);
  return Outcome::kDone;
}

void QueueGet::on_ready(std::function<void()> tell) {
  if (reading_)
    reading_->on_ready(std::move(tell));
  else
    awaited_->on_done(std::move(tell));
}

void QueueGet::cancel() {
  if (reading_) {
    if (HeldRef held = reading_->give_up()) put_back({std::move(held), number_});
  } else if (awaited_->give_up()) {
    cancel_request(*core_, asked_);
  } else if (auto left = awaited_->left(); left && *left) {
    put_back(*std::move(*left));
  }
}

void QueueGet::put_back(Item item) {
  core_->post([asked = asked_, queue = address_.queue, grant = grant_for(access_),
               item = std::move(item)](Surroundings& surroundings) {
    put_back_to(surroundings, *asked->host, queue, item.held, item.number, grant);
  });
}

}  // namespace tensorbus::bus
