#include "tensorbus/bus/publisher.hpp"

#include <optional>
#include <utility>

#include "tensorbus/bus/participant/participant_core.hpp"
#include "tensorbus/bus/publish/loan_state.hpp"
#include "tensorbus/bus/publish/loaned_sample.hpp"
#include "tensorbus/bus/publish/sample_builder.hpp"
#include "tensorbus/memory/file/mapped_file.hpp"
#include "tensorbus/platform/kill_point.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/tensor/descriptor.hpp"
#include "tensorbus/tensor/layout.hpp"

namespace tensorbus {

namespace {

constexpr std::size_t kWorthTakingBackFirst = std::size_t{64} << 10;

// Returns true for one tensor in host memory and nothing else.
bool is_plain(std::span<const TensorView> tensors, const Message& rest) {
  return tensors.size() == 1 && tensors.front().device.is_host() && rest.fields.empty() &&
         !rest.origin;
}

}  // namespace

struct Publisher::State final : bus::SampleBuilder::Allocator {
  static constexpr const char* kMovedFrom = "this publisher was moved from";
  const std::shared_ptr<bus::ParticipantCore> participant;
  std::shared_ptr<bus::PublisherCore> core{};

  explicit State(std::shared_ptr<bus::ParticipantCore> home) : participant(std::move(home)) {}
  ~State() {
    if (core) participant->close(core);
  }

  memory::BlockRef allocate(std::size_t bytes) const override {
    // A block that was just returned is still in the caches, a fresh one is not.
    if (bytes >= kWorthTakingBackFirst) core->drain();
    return participant->allocate(bytes, core->pool());
  }
  memory::BlockRef allocate_on(const Device& device, std::size_t bytes) const override {
    core->drain();
    return participant->allocate(device, bytes, core->most_granted());
  }
  // Publishes a single tensor in host memory; returns nothing if it needs a SampleBuilder.
  std::optional<Published> publish_alone(const TensorView& tensor, std::uint64_t fingerprint,
                                         const platform::StopCondition& stop) const {
    bus::LoanedSample loaned;
    const auto* const data = static_cast<const std::byte*>(tensor.data);
    const ByteSpan span = span_of(tensor.layout);
    memory::BlockRef block = participant->arena().find(data);
    const bool taken = block
                           ? take(loaned, tensor.layout, span, data, std::move(block), fingerprint)
                           : copy(loaned, tensor.layout, span, data, fingerprint);
    if (!taken) return std::nullopt;
    return publish(loaned, stop);
  }
  // Copies a contiguous tensor from outside the bus; returns false if it is not one.
  bool copy(bus::LoanedSample& sample, const Layout& layout, const ByteSpan& span,
            const std::byte* data, std::uint64_t fingerprint) const {
    if (data == nullptr || span.bytes() == 0 || !layout.is_contiguous() ||
        encoded_bytes_alone(layout) > link::kInlineBytes ||
        memory::MappedFile::at(data) != nullptr || participant->lent().find(data, span.bytes()))
      return false;
    memory::BlockRef block = allocate(span.bytes());
    std::byte* const target = block->data();
    core->copies().run(span.bytes(),
                       [&](Stores stores) { copy_elements(target, layout, data, layout, stores); });
    platform::kill_point("publish.copied");
    if (!take(sample, layout, span, target, std::move(block), fingerprint)) return false;
    sample.mark_copied(span.bytes());
    return true;
  }
  bool take(bus::LoanedSample& sample, const Layout& layout, const ByteSpan& span,
            const std::byte* data, memory::BlockRef block, std::uint64_t fingerprint) const {
    link::PublishedRef issued = std::make_shared<const link::PublishedSample>(std::move(block));
    return take(sample, layout, span, data, issued, fingerprint);
  }
  bool take(bus::LoanedSample& sample, const Layout& layout, const ByteSpan& span,
            const std::byte* data, link::PublishedRef& issued,
            std::uint64_t fingerprint = 0) const {
    return sample.take(layout, span, data, issued, participant->arena(), core->pool(), fingerprint);
  }
  // `loan` is the block that holds all tensors, if that is known.
  Published publish(std::span<const TensorView> tensors, const Message& rest,
                    const platform::StopCondition& stop, const memory::BlockRef* loan,
                    const bus::Stamp* as) const {
    if (loan == nullptr && as == nullptr && is_plain(tensors, rest))
      if (const auto done = publish_alone(tensors.front(), rest.fingerprint, stop)) return *done;
    bus::SampleBuilder sample(
        tensors, rest,
        {participant->arena(), participant->device_memory(), *this, core->copies(), core->pool(),
         participant->id(), participant->lent()},
        loan);
    return publish(sample, stop, as);
  }
  // Publishes as soon as the arena has room for what is copied. Throws memory::ArenaFull when the
  // time is over.
  template <typename Publish>
  Published publish_with_room(const platform::StopCondition& stop, const Publish& publish) const {
    Published published;
    const Outcome outcome = participant->when_there_is_room(
        stop, [&] { published = core->closed() ? Published{Outcome::kClosed} : publish(); });
    return outcome == Outcome::kDone ? published : Published{outcome};
  }
  // Publishes a LoanedSample or a SampleBuilder.
  template <typename Sample>
  Published publish(Sample& sample, const platform::StopCondition& stop,
                    const bus::Stamp* as = nullptr) const {
    const Published result = core->publish(sample.ready(), stop, as);
    if (result.outcome == Outcome::kDone) sample.mark_done();
    return result;
  }
};

Publisher::Publisher(const std::string& topic, const PublisherOptions& options,
                     const Participant& participant, link::MirrorOrigin origin) {
  platform::with_memory_errors([&] {
    // The allocations come first: once there is a publisher, it has to be closed.
    state_.emplace(participant.core());
    state_->core = participant.core()->add_publisher(topic, options, std::move(origin));
  });
}
Publisher::Publisher(Publisher&&) noexcept = default;
Publisher& Publisher::operator=(Publisher&&) noexcept = default;
Publisher::~Publisher() = default;

Loan Publisher::loan(const Layout& layout, Device device) {
  const State& state = *state_;
  if (state.core->closed()) throw Error(Code::kClosed, "the publisher is closed");
  return platform::with_memory_errors([&] {
    const ByteSpan span = span_of(layout);
    return Loan(
        !device.is_host() ? state.allocate_on(device, span.bytes()) : state.allocate(span.bytes()),
        layout, span, device);
  });
}

std::optional<Loan> Publisher::loan(const Layout& layout, Device device,
                                    const platform::StopCondition& stop) {
  const State& state = *state_;
  std::optional<Loan> taken;
  (void)state.participant->when_there_is_room(stop, [&] { taken.emplace(loan(layout, device)); });
  return taken;
}

Published Publisher::publish(std::span<const TensorView> tensors, const Message& rest,
                             const platform::StopCondition& stop, const memory::BlockRef* loan,
                             const bus::Stamp* as) {
  const State& state = *state_;
  if (state.core->closed()) return {Outcome::kClosed};
  const auto publish = [&] { return state.publish(tensors, rest, stop, loan, as); };
  try {
    return platform::with_memory_errors([&] {
      const bool waits =
          state.core->options().reliable && stop.timeout() != std::chrono::nanoseconds::max();
      return waits ? state.publish_with_room(stop, publish) : publish();
    });
  } catch (const Error& error) {
    // The publisher was closed meanwhile, and the memory of an isolated publisher with it.
    if (error.code() == Code::kClosed && state.core->closed()) return {Outcome::kClosed};
    throw;
  }
}

Published Publisher::publish(const Message& message, const platform::StopCondition& stop) {
  return publish(message.tensors, message, stop, nullptr);
}

Published Publisher::publish_as(const Message& message, const bus::Stamp& as,
                                const platform::StopCondition& stop) {
  return publish(message.tensors, message, stop, nullptr, &as);
}

Published Publisher::publish(const Message& message) {
  return publish(message, state_->core->options().timeout);
}

Published Publisher::publish(const TensorView& tensor) {
  return publish({&tensor, 1}, {}, state_->core->options().timeout, nullptr);
}

Published Publisher::publish(const Value& fields, const std::vector<TensorView>& tensors) {
  const std::vector<std::byte> bytes =
      platform::with_memory_errors([&] { return fields.encode(); });
  Message rest;
  rest.fields = bytes;
  return publish(tensors, rest, state_->core->options().timeout, nullptr);
}

Published Publisher::publish(Loan&& loan, void* stream) {
  const State& state = *state_;
  if (state.core->closed()) return {Outcome::kClosed};
  const platform::StopCondition stop = state.core->options().timeout;
  const Published published = platform::with_memory_errors([&] {
    LoanState& given = *loan.state_;
    bus::LoanedSample loaned(&given.issued);
    if (given.device.is_host() &&
        state.take(loaned, given.layout, given.span, given.first, given.issued))
      return state.publish(loaned, stop);
    TensorView view = loan.view();
    view.stream = stream;
    return publish({&view, 1}, {}, stop, &given.block());
  });
  if (published.outcome == Outcome::kDone) loan.state_.reset();
  return published;
}

bool Publisher::ready() { return state_->core->ready(); }

int Publisher::event_descriptor() {
  const State& state = *state_;
  return platform::with_memory_errors([&] { return state.core->event_descriptor(); });
}

Outcome Publisher::wait_for_subscribers(std::uint32_t count, const platform::StopCondition& stop) {
  return state_->core->wait_for_subscribers(count, stop);
}

std::uint32_t Publisher::subscribers() const { return state_->core->subscribers(); }

PublisherStats Publisher::stats() const { return state_->core->stats(); }

bool Publisher::traced() const { return state_->core->traced(); }

std::uint32_t Publisher::number() const { return state_->core->number(); }

bool Publisher::restart(std::uint64_t sequence) { return state_->core->restart(sequence); }

void Publisher::break_off() { state_->participant->close(state_->core, true); }

void Publisher::close() { state_->participant->close(state_->core); }

}  // namespace tensorbus
