#include "tensorbus/bus/publisher.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tensorbus/bus/participant/participant.hpp"
#include "tensorbus/bus/publish/loan_state.hpp"
#include "tensorbus/bus/publish/loaned_sample.hpp"
#include "tensorbus/memory/file/mapped_file.hpp"
#include "tensorbus/platform/kill_point.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/tensor/descriptor.hpp"
#include "tensorbus/tensor/layout.hpp"

namespace tensorbus::bus {

namespace {

constexpr std::size_t kAlwaysInline = 4;  // dimensions: with so few, the descriptor always fits
constexpr std::size_t kWorthTakingBackFirst = std::size_t{64} << 10;

// Returns true for a message of exactly one tensor in host memory.
bool is_plain(const Message& message) {
  return message.tensors.size() == 1 && message.tensors.front().device.is_host() &&
         message.fields.empty() && !message.origin;
}

Message message_of(const TensorView& tensor) {
  Message message;
  platform::with_memory_errors([&] { message.tensors = {tensor}; });
  return message;
}

}  // namespace

Publisher::Publisher(const std::string& topic, const PublisherOptions& options,
                     const ParticipantRef& participant, link::MirrorOrigin origin,
                     std::uint64_t first)
    : participant_(participant), sender_(platform::with_memory_errors([&] {
        return participant_->add_publisher(topic, options, std::move(origin), first);
      })) {}

Publisher::~Publisher() {
  if (sender_) close();
}

memory::BlockRef Publisher::allocate(std::size_t bytes) const {
  // Takes returned blocks back first: they are still in the caches, and fresh blocks are not.
  if (bytes >= kWorthTakingBackFirst) sender_->drain();
  return participant_->memory().allocate(bytes, sender_->pool());
}

memory::BlockRef Publisher::allocate_on(const Device& device, std::size_t bytes) const {
  sender_->drain();
  return participant_->memory().allocate(device, bytes, sender_->max_grant());
}

bool Publisher::waits_for_memory(const platform::StopCondition& stop) const {
  return sender_->options().reliable && stop.timeout() != std::chrono::nanoseconds::max();
}

// Calls `work`, which allocates. If the publisher waits for memory, calls it again when there may
// be room; throws memory::ArenaFull after the time-out.
template <typename Work>
Outcome Publisher::with_room(const platform::StopCondition& stop, const Work& work) const {
  if (waits_for_memory(stop)) return participant_->memory().when_there_is_room(stop, work);
  work();
  return Outcome::kDone;
}

Loan Publisher::loan(const Layout& layout, Device device) {
  if (sender_->closed()) throw Error(Code::kClosed, "the publisher is closed");
  return platform::with_memory_errors([&] {
    const ByteSpan span = span_of(layout);
    return Loan(device.is_host() ? allocate(span.bytes()) : allocate_on(device, span.bytes()),
                layout, span, device);
  });
}

std::optional<Loan> Publisher::loan(const Layout& layout, Device device,
                                    const platform::StopCondition& stop) {
  std::optional<Loan> taken;
  (void)participant_->memory().when_there_is_room(stop,
                                                  [&] { taken.emplace(loan(layout, device)); });
  return taken;
}

Published Publisher::publish(Loan&& loan, void* stream) {
  if (sender_->closed()) return {Outcome::kClosed};
  const platform::StopCondition stop = sender_->options().timeout;
  const Published published = platform::with_memory_errors([&] {
    LoanState& given = *loan.state_;
    LoanedSample loaned(&given.issued);
    if (given.device.is_host() && take(loaned, given.layout, given.span, given.first, given.issued))
      return send(loaned, stop);
    TensorView view = loan.view();
    view.stream = stream;
    return publish(message_of(view), stop, &given.block());
  });
  if (published.outcome == Outcome::kDone) loan.state_.reset();
  return published;
}

Published Publisher::publish_as(const Message& message, const Stamp& as,
                                const platform::StopCondition& stop) {
  return publish(message, stop, nullptr, &as);
}

Published Publisher::publish(const Message& message) {
  return publish(message, sender_->options().timeout);
}

Published Publisher::publish(const TensorView& tensor) { return publish(message_of(tensor)); }

Published Publisher::publish(const Value& fields, const std::vector<TensorView>& tensors) {
  std::vector<std::byte> bytes;
  Message message;
  platform::with_memory_errors([&] {
    bytes = fields.encode();
    message.tensors = tensors;
  });
  message.fields = bytes;
  return publish(message);
}

Published Publisher::publish(const Message& message, const platform::StopCondition& stop,
                             const memory::BlockRef* loan, const Stamp* as) {
  try {
    return platform::with_memory_errors([&] {
      Published published;
      const Outcome outcome =
          with_room(stop, [&] { published = publish_now(message, stop, loan, as); });
      return outcome == Outcome::kDone ? published : Published{outcome};
    });
  } catch (const Error& error) {
    // Another thread has closed the publisher, and with it the pool of an isolated publisher.
    if (error.code() == Code::kClosed && sender_->closed()) return {Outcome::kClosed};
    throw;
  }
}

// Throws memory::ArenaFull if there is no room for copies now.
Published Publisher::publish_now(const Message& message, const platform::StopCondition& stop,
                                 const memory::BlockRef* loan, const Stamp* as) {
  if (sender_->closed()) return {Outcome::kClosed};
  if (loan == nullptr && as == nullptr && is_plain(message))
    if (const auto done = publish_alone(message.tensors.front(), message.fingerprint, stop))
      return *done;
  SampleBuilder sample(
      message.tensors, message,
      {participant_->arena(), participant_->device_memory(), *this, sender_->copies(),
       sender_->pool(), participant_->id(), participant_->lent()},
      loan);
  return send(sample, stop, as);
}

// Publishes a single tensor in host memory. Returns an empty result if this needs a SampleBuilder.
std::optional<Published> Publisher::publish_alone(const TensorView& tensor,
                                                  std::uint64_t fingerprint,
                                                  const platform::StopCondition& stop) {
  LoanedSample loaned;
  const auto* const data = static_cast<const std::byte*>(tensor.data);
  const ByteSpan span = span_of(tensor.layout);
  memory::BlockRef block = participant_->arena().find(data);
  const bool taken = block ? take(loaned, tensor.layout, span, data, std::move(block), fingerprint)
                           : copy(loaned, tensor.layout, span, data, fingerprint);
  if (!taken) return std::nullopt;
  return send(loaned, stop);
}

// Publishes a LoanedSample or a SampleBuilder.
template <typename Sample>
Published Publisher::send(Sample& sample, const platform::StopCondition& stop, const Stamp* as) {
  const Published result = sender_->publish(sample.ready(), stop, as);
  if (result.outcome == Outcome::kDone) sample.mark_done();
  return result;
}

// Copies a contiguous tensor from outside the bus; returns false for any other tensor.
bool Publisher::copy(LoanedSample& sample, const Layout& layout, const ByteSpan& span,
                     const std::byte* data, std::uint64_t fingerprint) const {
  if (data == nullptr || span.bytes() == 0 || !layout.is_contiguous() ||
      (layout.shape.size() > kAlwaysInline &&
       tensor::encoded_bytes_alone(layout) > link::kInlineBytes) ||
      memory::MappedFile::at(data) != nullptr || participant_->lent().find(data, span.bytes()))
    return false;
  memory::BlockRef block = allocate(span.bytes());
  std::byte* const target = block->data();
  sender_->copies().run(span.bytes(), [&](tensor::Stores stores) {
    tensor::copy_elements(target, layout, data, layout, stores);
  });
  platform::kill_point("publish.copied");
  if (!take(sample, layout, span, target, std::move(block), fingerprint)) return false;
  sample.mark_copied(span.bytes());
  return true;
}

bool Publisher::take(LoanedSample& sample, const Layout& layout, const ByteSpan& span,
                     const std::byte* data, memory::BlockRef block,
                     std::uint64_t fingerprint) const {
  link::PublishedRef issued = std::make_shared<const link::PublishedSample>(std::move(block));
  return take(sample, layout, span, data, issued, fingerprint);
}

bool Publisher::take(LoanedSample& sample, const Layout& layout, const ByteSpan& span,
                     const std::byte* data, link::PublishedRef& issued,
                     std::uint64_t fingerprint) const {
  return sample.take(layout, span, data, issued, participant_->arena(), sender_->pool(),
                     fingerprint);
}

namespace {

constexpr std::int64_t kRowsAtOnce = 256;     // in one block, which each row keeps alive
constexpr std::int64_t kMaxBlock = 64 << 10;  // bytes
constexpr std::int64_t kMaxRow = 4 << 10;     // bytes; larger rows have their own blocks
constexpr std::int64_t kRowAlignment = 64;    // bytes: two rows share no cache line

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
  const std::int64_t count = tensor.layout.shape[0];
  PublishedMany done;
  if (sender_->closed()) done.outcome = Outcome::kClosed;
  if (count == 0) return done;
  const TensorView first = row_of(tensor, 0);
  const Layout row = Layout::contiguous(first.layout.dtype, first.layout.shape, first.layout.flags);
  const auto bytes = static_cast<std::int64_t>(row.packed_bytes());
  const bool together =
      bytes != 0 && bytes <= kMaxRow && tensor::encoded_bytes_alone(row) <= link::kInlineBytes;
  const std::int64_t step = (bytes + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
  Message alone = message_of(first);
  const std::int64_t most = together ? std::min(kRowsAtOnce, kMaxBlock / step) : 1;
  while (done.outcome == Outcome::kDone && static_cast<std::int64_t>(done.count) < count) {
    const auto next = static_cast<std::int64_t>(done.count);
    try {
      if (together) {
        publish_together(rows_of(tensor, next, std::min(most, count - next)), row,
                         static_cast<std::size_t>(step), stop, done);
      } else {
        alone.tensors.front() = row_of(tensor, next);
        const Published published = publish(alone, stop);
        done.outcome = published.outcome;
        if (published.outcome != Outcome::kDone) break;
        ++done.count;
        done.sequence = published.sequence;
        done.subscribers = published.subscribers;
      }
    } catch (const Error& error) {
      // As in publish(): closing an isolated publisher closes its pool.
      if (error.code() == Code::kClosed && sender_->closed())
        done.outcome = Outcome::kClosed;
      else if (done.count != 0)
        done.outcome = Outcome::kInterrupted;
      else
        throw;
    }
  }
  return done;
}

// Copies rows of the contiguous layout `row` into one block, `step` bytes apart, and publishes
// each.
void Publisher::publish_together(const TensorView& rows, const Layout& row, std::size_t step,
                                 const platform::StopCondition& stop, PublishedMany& done) {
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
    tensor::copy_elements(block->data(), target, static_cast<const std::byte*>(rows.data),
                          rows.layout, tensor::Stores::kOrdinary);
  platform::kill_point("publish.copied");
  OutgoingRows out{.left = count, .step = step, .bytes_each = row.packed_bytes()};
  out.next.length =
      static_cast<std::uint32_t>(tensor::encode_alone(row, *block, 0, out.next.inline_bytes));
  (void)block->mark_published();
  platform::kill_point("publish.described");
  platform::with_memory_errors([&] {
    out.issued = std::make_shared<const link::PublishedSample>(std::move(block), count);
    sender_->publish_many(out, stop, done);
  });
}

PublishedMany Publisher::publish_many(const TensorView& rows) {
  return publish_many(rows, sender_->options().timeout);
}

bool Publisher::ready() { return sender_->ready(); }

int Publisher::event_descriptor() {
  return platform::with_memory_errors([&] { return sender_->event_descriptor(); });
}

Outcome Publisher::wait_for_subscribers(std::uint32_t count, const platform::StopCondition& stop) {
  return sender_->wait_for_subscribers(count, stop);
}

std::uint32_t Publisher::subscribers() const { return sender_->subscribers(); }

PublisherStats Publisher::stats() const { return sender_->stats(); }

bool Publisher::traced() const { return sender_->traced(); }

std::uint32_t Publisher::number() const { return sender_->number(); }

bool Publisher::restart(std::uint64_t sequence) { return sender_->restart(sequence); }

void Publisher::begin_at(std::uint64_t sequence) { sender_->begin_at(sequence); }

void Publisher::break_off() { participant_->close(sender_, true); }

void Publisher::close() { participant_->close(sender_); }

}  // namespace tensorbus::bus
