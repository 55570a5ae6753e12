#include "tensorbus/bus/subscriber.hpp"

#include <utility>

#include "tensorbus/bus/participant/participant_core.hpp"
#include "tensorbus/bus/subscribe/row_sink.hpp"
#include "tensorbus/link/lease/kept_lease.hpp"
#include "tensorbus/platform/limits.hpp"

namespace tensorbus {

struct Subscriber::State {
  static constexpr const char* kMovedFrom = "this subscriber was moved from";
  const std::shared_ptr<bus::ParticipantCore> participant;
  std::shared_ptr<bus::SubscriberCore> core{};

  ~State() {
    if (core) participant->close(core);
  }
};

namespace {

std::string held_by_children() {
  const std::size_t kept = link::KeptLease::count();
  if (kept == 0) return "";
  return " (" + std::to_string(kept) + " leases of this process are held only by forked children)";
}

}  // namespace

Subscriber::Subscriber(const std::string& topic, const SubscriberOptions& options,
                       const Participant& participant,
                       const std::optional<bus::PublisherName>& only) {
  platform::with_memory_errors([&] {
    // Allocations come first: once there is a subscriber, it must be closed.
    state_.emplace(participant.core());
    state_->core = participant.core()->add_subscriber(topic, options, only);
  });
}
Subscriber::Subscriber(Subscriber&&) noexcept = default;
Subscriber& Subscriber::operator=(Subscriber&&) noexcept = default;
Subscriber::~Subscriber() = default;

Outcome Subscriber::receive(Sample& sample, const platform::StopCondition& stop) {
  const State& state = *state_;
  return platform::with_memory_errors([&] { return state.core->receive(sample, stop); });
}

Outcome Subscriber::try_receive(Sample& sample) {
  const State& state = *state_;
  return platform::with_memory_errors([&] { return state.core->try_receive(sample); });
}

Outcome Subscriber::receive_many(std::span<Sample> samples, std::size_t& count,
                                 const platform::StopCondition& stop) {
  const State& state = *state_;
  count = 0;
  if (samples.empty()) throw Error(Code::kInvalidArgument, "receive_many: no room for a sample");
  // Samples with only fields hold no lease, and the next samples reuse their memory.
  for (Sample& sample : samples)
    if (!sample.tensors().empty()) sample = Sample();
  bus::SubscriberCore::Batch batch{samples};
  const Outcome outcome = platform::with_memory_errors([&] {
    return stop.timeout().count() > 0 ? state.core->receive(batch, stop)
                                      : state.core->try_receive(batch);
  });
  for (Sample& sample : samples.subspan(batch.taken)) sample = Sample();
  count = batch.taken;
  return outcome;
}

Outcome Subscriber::receive_into(void* first, const Layout& rows, std::size_t& count,
                                 const platform::StopCondition& stop) {
  const State& state = *state_;
  count = 0;
  bus::RowSink sink(static_cast<std::byte*>(first), rows);
  Sample other;  // for a sample that is not copied from its entry at once
  bus::SubscriberCore::Batch batch{.room = {&other, 1}, .rows = &sink};
  const Outcome outcome = platform::with_memory_errors([&] {
    return stop.timeout().count() > 0 ? state.core->receive(batch, stop)
                                      : state.core->try_receive(batch);
  });
  count = sink.taken();
  return outcome;
}

std::optional<Sample> Subscriber::receive(const platform::StopCondition& stop) {
  Sample sample;
  Outcome outcome{};
  do outcome = receive(sample, stop);
  while (outcome == Outcome::kInterrupted && !stop.give_up());
  return sample_of(outcome, std::move(sample));
}

std::optional<Sample> Subscriber::try_receive() {
  Sample sample;
  const Outcome outcome = try_receive(sample);
  return sample_of(outcome, std::move(sample));
}

std::optional<Sample> Subscriber::sample_of(Outcome outcome, Sample&& sample) const {
  if (outcome == Outcome::kDone) return std::move(sample);
  if (outcome == Outcome::kHoldLimit)
    throw Error(Code::kInvalidArgument,
                "max_held (" + std::to_string(state_->core->options().max_held) +
                    ") samples of one publisher are held" + held_by_children() +
                    ": let some go, or raise max_held");
  return std::nullopt;
}

bool Subscriber::ready() { return state_->core->ready(); }

int Subscriber::event_descriptor() {
  const State& state = *state_;
  return platform::with_memory_errors(
      [&] { return state.participant->event_descriptor(state.core); });
}

void Subscriber::notify_lazily(bool lazily) { state_->core->notify_lazily(lazily); }

bool Subscriber::has_set_aside() const { return state_->core->has_set_aside(); }

void Subscriber::refuse_set_aside(const char* why) { state_->core->refuse_set_aside(why); }

void Subscriber::stop_here() noexcept { state_->core->stop_here(); }

bool Subscriber::has_left() const { return state_->core->has_left(); }

void Subscriber::miss_what_is_left() noexcept { state_->core->miss_what_is_left(); }

std::size_t Subscriber::links() const { return state_->core->links(); }

Outcome Subscriber::wait_for_publishers(std::uint32_t count, const platform::StopCondition& stop) {
  return state_->core->wait_for_publishers(count, stop);
}

SubscriberStats Subscriber::stats() const {
  const State& state = *state_;
  return platform::with_memory_errors([&] { return state.core->stats(); });
}

std::vector<bus::MissingSamples> Subscriber::take_missing() { return state_->core->take_missing(); }

void Subscriber::close() { state_->participant->close(state_->core); }

}  // namespace tensorbus
