#include "tensorbus/bus/subscriber.hpp"

#include <utility>

#include "tensorbus/bus/participant/participant.hpp"
#include "tensorbus/bus/subscribe/row_sink.hpp"
#include "tensorbus/link/lease/kept_lease.hpp"
#include "tensorbus/platform/limits.hpp"

namespace tensorbus::bus {

namespace {

std::string held_by_children() {
  const std::size_t kept = link::KeptLease::count();
  if (kept == 0) return "";
  return " (" + std::to_string(kept) + " leases of this process are held only by forked children)";
}

}  // namespace

Subscriber::Subscriber(const std::string& topic, const SubscriberOptions& options,
                       const ParticipantRef& participant, const std::optional<PublisherName>& only)
    : participant_(participant), receiver_(platform::with_memory_errors([&] {
        return participant_->add_subscriber(topic, options, only);
      })) {}

Subscriber::~Subscriber() {
  if (receiver_) close();
}

Outcome Subscriber::receive(Sample& sample, const platform::StopCondition& stop) {
  return platform::with_memory_errors([&] { return receiver_->receive(sample, stop); });
}

Outcome Subscriber::try_receive(Sample& sample) {
  return platform::with_memory_errors([&] { return receiver_->try_receive(sample); });
}

Outcome Subscriber::receive_many(std::span<Sample> samples, std::size_t& count,
                                 const platform::StopCondition& stop) {
  count = 0;
  if (samples.empty()) throw Error(Code::kInvalidArgument, "receive_many: no room for a sample");
  // Samples with only fields stay: they hold no lease, and the next samples reuse their memory.
  for (Sample& sample : samples)
    if (!sample.tensors().empty()) sample = Sample();
  Receiver::Batch batch{samples};
  const Outcome outcome = platform::with_memory_errors([&] {
    return stop.timeout().count() > 0 ? receiver_->receive(batch, stop)
                                      : receiver_->try_receive(batch);
  });
  for (Sample& sample : samples.subspan(batch.taken)) sample = Sample();
  count = batch.taken;
  return outcome;
}

Outcome Subscriber::receive_into(void* first, const Layout& rows, std::size_t& count,
                                 const platform::StopCondition& stop) {
  count = 0;
  RowSink sink(static_cast<std::byte*>(first), rows);
  Sample other;  // for a sample that is not copied from its entry at once
  Receiver::Batch batch{.room = {&other, 1}, .rows = &sink};
  const Outcome outcome = platform::with_memory_errors([&] {
    return stop.timeout().count() > 0 ? receiver_->receive(batch, stop)
                                      : receiver_->try_receive(batch);
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
                "max_held (" + std::to_string(receiver_->options().max_held) +
                    ") samples of one publisher are held" + held_by_children() +
                    ": release some, or raise max_held");
  return std::nullopt;
}

bool Subscriber::ready() { return receiver_->ready(); }

int Subscriber::event_descriptor() {
  return platform::with_memory_errors([&] { return participant_->event_descriptor(receiver_); });
}

Outcome Subscriber::wait_for_publishers(std::uint32_t count, const platform::StopCondition& stop) {
  return receiver_->wait_for_publishers(count, stop);
}

SubscriberStats Subscriber::stats() const {
  return platform::with_memory_errors([&] { return receiver_->stats(); });
}

void Subscriber::watch_publisher_ends() {
  platform::with_memory_errors([&] { receiver_->watch_publisher_ends(); });
}

std::vector<PublisherEnd> Subscriber::take_publisher_ends() {
  return platform::with_memory_errors([&] { return receiver_->take_publisher_ends(); });
}

void Subscriber::close() { participant_->close(receiver_); }

}  // namespace tensorbus::bus
