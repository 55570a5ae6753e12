#include "tensorbus/bus/subscriber.hpp"

#include <utility>

#include "tensorbus/bus/event_loop/fork_safe.hpp"
#include "tensorbus/bus/participant/participant_core.hpp"
#include "tensorbus/link/lease/kept_lease.hpp"
#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/limits.hpp"

namespace tensorbus {

struct SubscriberState {
  std::shared_ptr<bus::ParticipantCore> participant;
  std::shared_ptr<bus::SubscriberCore> core;
};

struct Subscriber::Impl {
  bus::ForkSafe<SubscriberState> state;

  ~Impl() {
    if (!state.forked() && state->core) state->participant->close_subscriber(state->core);
  }

  static std::string by_children() {
    const std::size_t kept = link::KeptLease::count();
    if (kept == 0) return "";
    return " (" + std::to_string(kept) + " leases of this process by forked children alone)";
  }

  // The sample of an outcome that a caller without interest in signals wants to hear of.
  std::optional<Sample> sample_of(Outcome outcome, Sample&& sample) const {
    if (outcome == Outcome::kDone) return std::move(sample);
    if (outcome == Outcome::kHoldLimit)
      throw Error(Code::kInvalidArgument, "max_held (" +
                                              std::to_string(state->core->options().max_held) +
                                              ") samples of one publisher are held" +
                                              by_children() + ": let some go, or raise max_held");
    return std::nullopt;
  }
};

Subscriber::Subscriber(const std::string& topic, const SubscriberOptions& options,
                       const Participant& participant) {
  platform::with_memory_errors([&] {
    // What takes memory comes first: once there is a subscriber, somebody has to close it.
    impl_.reset(new Impl{bus::ForkSafe(SubscriberState{participant.core(), nullptr})});
    impl_->state->core = participant.core()->add_subscriber(topic, options);
  });
}
Subscriber::Subscriber(Subscriber&&) noexcept = default;
Subscriber& Subscriber::operator=(Subscriber&&) noexcept = default;
Subscriber::~Subscriber() = default;

SubscriberState& Subscriber::state() const {
  if (!impl_) throw Error(Code::kClosed, "this subscriber was moved from");
  return *impl_->state;
}

const std::string& Subscriber::topic() const { return state().core->topic(); }

Outcome Subscriber::receive(Sample& sample, std::chrono::nanoseconds timeout) {
  SubscriberState& state = this->state();
  return platform::with_memory_errors([&] { return state.core->receive(sample, timeout); });
}

Outcome Subscriber::try_receive(Sample& sample) {
  SubscriberState& state = this->state();
  return platform::with_memory_errors([&] { return state.core->try_receive(sample); });
}

Outcome Subscriber::receive_many(std::span<Sample> samples, std::size_t& count,
                                 std::chrono::nanoseconds timeout) {
  SubscriberState& state = this->state();
  count = 0;
  if (samples.empty()) throw Error(Code::kInvalidArgument, "receive_many: no room for a sample");
  // Those of fields hold nothing, and the next ones are made of their memory.
  for (Sample& sample : samples)
    if (!sample.tensors().empty()) sample = Sample();
  bus::SubscriberCore::Batch batch{samples};
  const Outcome outcome = platform::with_memory_errors([&] {
    return timeout.count() > 0 ? state.core->receive(batch, timeout)
                               : state.core->try_receive(batch);
  });
  for (Sample& sample : samples.subspan(batch.taken)) sample = Sample();
  count = batch.taken;
  return outcome;
}

std::optional<Sample> Subscriber::receive(std::chrono::nanoseconds timeout) {
  const platform::Deadline deadline(timeout);
  Sample sample;
  Outcome outcome = Outcome::kInterrupted;
  while (outcome == Outcome::kInterrupted)
    outcome = receive(sample, deadline.remaining(std::chrono::nanoseconds::max()));
  return impl_->sample_of(outcome, std::move(sample));
}

std::optional<Sample> Subscriber::try_receive() {
  Sample sample;
  const Outcome outcome = try_receive(sample);
  return impl_->sample_of(outcome, std::move(sample));
}

bool Subscriber::ready() { return state().core->ready(); }

int Subscriber::event_descriptor() {
  SubscriberState& state = this->state();
  return platform::with_memory_errors(
      [&] { return state.participant->event_descriptor(state.core); });
}

Outcome Subscriber::wait_for_publishers(std::uint32_t count, std::chrono::nanoseconds timeout) {
  return state().core->wait_for_publishers(count, timeout);
}

SubscriberStats Subscriber::stats() const {
  SubscriberState& state = this->state();
  return platform::with_memory_errors([&] { return state.core->stats(); });
}

void Subscriber::close() { state().participant->close_subscriber(state().core); }

}  // namespace tensorbus
