#include "tensorbus/bus/publisher.hpp"

#include <algorithm>
#include <cstring>
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

constexpr std::size_t kAlwaysInline = 4;  // dimensions: with so few, the descriptor always fits
constexpr std::size_t kWorthTakingBackFirst = std::size_t{64} << 10;

// Returns true for a message of exactly one tensor in host memory.
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
  // Copies a contiguous tensor from outside the bus; returns false for any other tensor.
  bool copy(bus::LoanedSample& sample, const Layout& layout, const ByteSpan& span,
            const std::byte* data, std::uint64_t fingerprint) const {
    if (data == nullptr || span.bytes() == 0 || !layout.is_contiguous() ||
        (layout.shape.size() > kAlwaysInline && encoded_bytes_alone(layout) > link::kInlineBytes) ||
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
  // `loan`: the block that contains all tensors, if known.
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
  // Publishes as soon as the arena has room for the copies. Throws memory::ArenaFull after the
  // time-out.
  template <typename Publish>
  Published publish_with_room(const platform::StopCondition& stop, const Publish& publish) const {
    Published published;
    const Outcome outcome = participant->when_there_is_room(
        stop, [&] { published = core->closed() ? Published{Outcome::kClosed} : publish(); });
    return outcome == Outcome::kDone ? published : Published{outcome};
  }
  // Copies rows of the contiguous layout `row` into one block, `step` bytes apart, and publishes
  // each.
  void publish_rows(const TensorView& rows, const Layout& row, std::size_t step,
                    const platform::StopCondition& stop, PublishedMany& done) const {
    const auto count = static_cast<std::uint32_t>(rows.layout.shape[0]);
    memory::BlockRef block;
    platform::with_memory_errors(
        [&] { done.outcome = with_room(stop, [&] { block = allocate(count * step); }); });
    if (done.outcome != Outcome::kDone) return;
    Layout target = rows.layout;
    std::copy(row.strides.begin(), row.strides.end(), target.strides.begin() + 1);
    target.strides[0] = static_cast<std::int64_t>(step / item_bytes(row.dtype));
    const bool solid = row.packed_bytes() == step && rows.layout.is_contiguous();
    if (solid)
      std::memcpy(block->data(), rows.data, count * step);
    else
      copy_elements(block->data(), target, static_cast<const std::byte*>(rows.data), rows.layout,
                    Stores::kOrdinary);
    platform::kill_point("publish.copied");
    bus::OutgoingRows out{.left = count, .step = step, .bytes_each = row.packed_bytes()};
    out.next.length =
        static_cast<std::uint32_t>(encode_alone(row, *block, 0, out.next.inline_bytes));
    (void)block->mark_published();
    platform::kill_point("publish.described");
    platform::with_memory_errors([&] {
      out.issued = std::make_shared<const link::PublishedSample>(std::move(block), count);
      core->publish_many(out, stop, done);
    });
  }
  bool waits_for_memory(const platform::StopCondition& stop) const {
    return core->options().reliable && stop.timeout() != std::chrono::nanoseconds::max();
  }
  // Calls `work`, which allocates. If the publisher waits for memory, calls it again when there may
  // be room.
  template <typename Work>
  Outcome with_room(const platform::StopCondition& stop, const Work& work) const {
    if (core->closed()) return Outcome::kClosed;
    if (waits_for_memory(stop)) return participant->when_there_is_room(stop, work);
    work();
    return Outcome::kDone;
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
                     const Participant& participant, link::MirrorOrigin origin,
                     std::uint64_t first) {
  platform::with_memory_errors([&] {
    // Allocations come first: once there is a publisher, it must be closed.
    state_.emplace(participant.core());
    state_->core = participant.core()->add_publisher(topic, options, std::move(origin), first);
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
      return state.waits_for_memory(stop) ? state.publish_with_room(stop, publish) : publish();
    });
  } catch (const Error& error) {
    // The publisher was closed in the meantime, and with it the memory of an isolated publisher.
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

namespace {

constexpr std::int64_t kRowsAtOnce = 256;         // in one block, which each row keeps alive
constexpr std::int64_t kMostOfABlock = 64 << 10;  // bytes
constexpr std::int64_t kMostOfARow = 4 << 10;     // bytes; larger rows have their own blocks
constexpr std::int64_t kRowAlignment = 64;        // bytes: two rows share no cache line

Dims inner(const Dims& dims) { return Dims(std::span(dims.begin() + 1, dims.end())); }

// Returns `count` rows of a tensor, from `first` on.
TensorView rows_of(const TensorView& tensor, std::int64_t first, std::int64_t count) {
  TensorView part = tensor;
  const auto item = static_cast<std::int64_t>(item_bytes(tensor.layout.dtype));
  part.data = static_cast<const std::byte*>(tensor.data) + first * tensor.layout.strides[0] * item;
  part.layout.shape[0] = count;
  return part;
}

TensorView row_of(const TensorView& tensor, std::int64_t index) {
  TensorView row = rows_of(tensor, index, 1);
  row.layout.shape = inner(row.layout.shape);
  row.layout.strides = inner(row.layout.strides);
  return row;
}

void require_rows(const TensorView& tensor) {
  span_of(tensor.layout);
  if (tensor.layout.shape.empty())
    throw Error(Code::kInvalidArgument, "publish_many: a tensor without dimensions has no rows");
  if (!tensor.device.is_host())
    throw Error(Code::kInvalidArgument,
                "publish_many: rows on a GPU are published one by one, or as one tensor");
}

}  // namespace

PublishedMany Publisher::publish_many(const TensorView& tensor,
                                      const platform::StopCondition& stop) {
  require_rows(tensor);
  const State& state = *state_;
  const std::int64_t count = tensor.layout.shape[0];
  PublishedMany done;
  if (count == 0 && state.core->closed()) done.outcome = Outcome::kClosed;
  if (count == 0) return done;
  const TensorView first = row_of(tensor, 0);
  const Layout row = Layout::contiguous(first.layout.dtype, first.layout.shape, first.layout.flags);
  const auto bytes = static_cast<std::int64_t>(row.packed_bytes());
  const bool together =
      bytes != 0 && bytes <= kMostOfARow && encoded_bytes_alone(row) <= link::kInlineBytes;
  const std::int64_t step = (bytes + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
  const std::int64_t most = together ? std::min(kRowsAtOnce, kMostOfABlock / step) : 1;
  while (done.outcome == Outcome::kDone && static_cast<std::int64_t>(done.count) < count) {
    const auto next = static_cast<std::int64_t>(done.count);
    try {
      if (together) {
        state.publish_rows(rows_of(tensor, next, std::min(most, count - next)), row,
                           static_cast<std::size_t>(step), stop, done);
      } else {
        const TensorView one = row_of(tensor, next);
        const Published published = publish({&one, 1}, {}, stop, nullptr);
        done.outcome = published.outcome;
        if (published.outcome != Outcome::kDone) break;
        ++done.count;
        done.sequence = published.sequence;
        done.subscribers = published.subscribers;
      }
    } catch (const Error& error) {
      // As in publish(): closing an isolated publisher closes its memory.
      if (error.code() == Code::kClosed && state.core->closed())
        done.outcome = Outcome::kClosed;
      else if (done.count != 0)
        done.outcome = Outcome::kInterrupted;
      else
        throw;
    }
  }
  return done;
}

PublishedMany Publisher::publish_many(const TensorView& rows) {
  return publish_many(rows, state_->core->options().timeout);
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

void Publisher::begin_at(std::uint64_t sequence) { state_->core->begin_at(sequence); }

void Publisher::break_off() { state_->participant->close(state_->core, true); }

void Publisher::close() { state_->participant->close(state_->core); }

}  // namespace tensorbus
