#include "tensorbus/bus/queue_client/queue_putter.hpp"

#include <algorithm>
#include <array>
#include <thread>
#include <utility>
#include <variant>

#include "tensorbus/bus/queue/put_rings.hpp"
#include "tensorbus/bus/queue_client/call_limits.hpp"
#include "tensorbus/bus/session/queue_requests.hpp"
#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::bus {
namespace {

// A descriptor that is short enough for a slot of a ring.
class ShortDescriptor {
 public:
  // Returns false if the descriptor is too long, or if the item lies on a device, or in memory of
  // owners other than this participant and the server.
  bool copy(const SampleBuilder& item, const Id& server) {
    const link::Entry& entry = item.entry();
    const link::PublishedRef& issued = item.issued();
    const auto is_other = [&](const Id& owner) { return owner != server; };
    if (entry.length > bytes_.size() || item.descriptor().is_on_device() ||
        std::ranges::any_of(item.descriptor().owners, is_other))
      return false;
    const auto written = entry.is_inline()
                             ? std::span<const std::byte>(entry.inline_bytes).first(entry.length)
                             : issued->find(entry.segment, entry.offset, entry.length);
    std::ranges::copy(written, bytes_.begin());
    length_ = written.size();
    return length_ != 0;
  }
  // Returns false if the item has tensors, or is too long.
  bool encode(const Message& item) {
    if (!item.tensors.empty() || item.fields.size() > bytes_.size()) return false;
    tensor::Descriptor descriptor;
    descriptor.origin = item.origin;
    descriptor.fields = item.fields;
    length_ = descriptor.encoded_bytes();
    if (length_ > bytes_.size()) return false;
    descriptor.encode(std::span(bytes_).first(length_));
    return true;
  }
  std::span<const std::byte> bytes() const noexcept { return std::span(bytes_).first(length_); }

 private:
  std::array<std::byte, link::PutSlot::kMaxBytes> bytes_;
  std::size_t length_ = 0;
};

}  // namespace

QueuePutter::~QueuePutter() { end(); }

std::shared_ptr<UnderWay::Request> QueuePutter::begin_by_message() {
  auto begun = by_message_.begin();
  if (address_.server == participant_.self) return begun;
  bool offers = false;
  {
    const platform::MutexLock lock(mutex_);
    offers = ring_ == Ring::kNone;
    if (offers) ring_ = Ring::kOffered;
  }
  if (offers) offer_ring();
  return begun;
}

void QueuePutter::offer_ring() {
  participant_.run_or_post([self = shared_from_this()](ParticipantContext& context) {
    context.reach(self->address_.server, [self](const std::shared_ptr<PeerSession>& server) {
      if (!server) return self->set(Ring::kNone);
      std::shared_ptr<link::PutRingSegment> segment;
      try {
        segment = std::make_shared<link::PutRingSegment>();
      } catch (const Error&) {  // no memory: items are sent by message
        return self->set(Ring::kNever);
      }
      platform::Fd memory = segment->take_descriptor();
      server->offer_ring(
          self->address_.queue, std::move(memory),
          [self, segment, weak = std::weak_ptr(server)](PeerSession::Answer& answer) {
            const auto session = weak.lock();
            if (!session)
              self->set(Ring::kNone);
            else if (std::holds_alternative<link::Reply>(answer))
              self->open(segment, session);
            else
              self->set(session->peer_is_gone() ? Ring::kNone : Ring::kNever);
          });
    });
  });
}

void QueuePutter::open(std::shared_ptr<link::PutRingSegment> segment,
                       const std::shared_ptr<PeerSession>& server) {
  const platform::MutexLock lock(mutex_);
  segment_ = std::move(segment);
  server_ = server->peer_memory();
  session_ = server;
  writer_.emplace(*segment_);
  ring_ = Ring::kOpen;
}

void QueuePutter::set(Ring ring) {
  const platform::MutexLock lock(mutex_);
  ring_ = ring;
}

// Returns null without a ring, and unmaps a ring that no process reads any more.
std::shared_ptr<link::PeerMemory> QueuePutter::living_server() {
  if (!writer_) return nullptr;
  auto server = server_.lock();
  if (server && !server->has_died()) return server;
  close_ring();
  return nullptr;
}

void QueuePutter::close_ring() {
  if (!writer_) return;
  writer_.reset();
  segment_.reset();
  server_.reset();
  session_.reset();
  ring_ = Ring::kNone;
}

void QueuePutter::end() noexcept {
  const platform::MutexLock lock(mutex_);
  if (!writer_) return;
  writer_->end();
  try {
    prepare_wake();
    if (const auto server = server_.lock()) server->channel->send(std::move(*wake_));
  } catch (const std::exception&) {  // no memory for the message, which the last put did not need
  }
  wake_.reset();
  close_ring();
}

void QueuePutter::close_if_server_is_gone() {
  const platform::MutexLock lock(mutex_);
  const auto server = server_.lock();
  if (!server || server->is_over()) close_ring();
}

bool QueuePutter::has_ring() {
  const platform::MutexLock lock(mutex_);
  return ring_ == Ring::kOpen;
}

std::size_t QueuePutter::put_now(std::span<const Message> items) {
  if (by_message_.any()) return 0;
  if (address_.server == participant_.self) return put_here(items);
  const platform::MutexLock lock(mutex_);
  const auto server = living_server();
  if (!server) return 0;
  ShortDescriptor descriptor;
  std::size_t put = 0;
  while (put < items.size()) {
    prepare_wake();
    const std::uint32_t room = writer_->room();
    const std::uint64_t now = put_clock_ns();
    std::uint32_t written = 0;
    while (written < room && put + written < items.size() &&
           descriptor.encode(items[put + written]))
      writer_->write(written++, descriptor.bytes(), now);
    const std::uint32_t committed = written == 0 ? 0 : writer_->commit(written);
    if (committed != 0) wake_if_waiting(*server->channel);
    put += committed;
    if (committed == 0 || committed < written) break;
  }
  return put;
}

void QueuePutter::prepare_wake() {
  if (!wake_) wake_.emplace(link::Channel::prepare(link::QueueWake{address_.queue}));
}

void QueuePutter::wake_if_waiting(link::Channel& server) noexcept {
  if (!writer_->wakes()) return;
  server.send(std::move(*wake_));
  wake_.reset();
}

bool QueuePutter::waits_for_room() {
  if (by_message_.any()) return false;
  const platform::MutexLock lock(mutex_);
  return writer_ && writer_->room() == 0;
}

bool QueuePutter::put_now(const SampleBuilder& item, IfBusy if_busy) {
  if (by_message_.any()) return false;
  ShortDescriptor descriptor;
  if (!descriptor.copy(item, address_.server)) return false;
  bool put = false;
  const bool has_tensors = !item.descriptor().tensors.empty();
  const link::PublishedRef memory = has_tensors ? item.issued() : nullptr;
  const auto put_it = [&](ParticipantContext& context) {
    put = address_.server == participant_.self
              ? context.queues->put_now(address_.queue, descriptor.bytes(), memory)
              : put_lent(descriptor.bytes(), memory, item.max_grant());
  };
  // Waits for the loop by default: a put by message would need the loop, too, and a reply of the
  // server.
  const bool ran =
      if_busy == IfBusy::kWait ? participant_.run_in_turn(put_it) : participant_.run_now(put_it);
  return ran && put;
}

// The lease exists before the server can read the entry. On the event loop only.
bool QueuePutter::put_lent(std::span<const std::byte> descriptor, const link::PublishedRef& issued,
                           memory::Grant grant) {
  const platform::MutexLock lock(mutex_);
  const auto server = living_server();
  const auto session = session_.lock();
  if (!server || !session || writer_->room() == 0) return false;
  prepare_wake();
  std::uint64_t token = 0;
  if (issued) {
    token = session->lend_in_ring(issued, grant);
    if (token == 0) return false;
  }
  writer_->write(0, descriptor, put_clock_ns(), token);
  if (writer_->commit(1) == 0) {
    session->take_back_lease(token);
    return false;
  }
  wake_if_waiting(*server->channel);
  return true;
}

std::size_t QueuePutter::look_for_room(const std::function<std::size_t()>& put_all) {
  std::size_t put = put_all();
  if (put != 0) {
    looks_for_room_.store(true, std::memory_order_relaxed);
    return put;
  }
  if (!looks_for_room_.load(std::memory_order_relaxed) || !waits_for_room()) return 0;
  const platform::Deadline deadline(platform::AdaptiveSpin::most());
  while (put == 0 && !deadline.passed() && !by_message_.any()) {
    std::this_thread::yield();
    if (!waits_for_room()) put = put_all();
  }
  if (put == 0) looks_for_room_.store(false, std::memory_order_relaxed);
  return put;
}

std::size_t QueuePutter::put_here(std::span<const Message> items) {
  ShortDescriptor descriptor;
  std::size_t put = 0;
  const auto put_all = [&](ParticipantContext& context) {
    while (put < items.size() && descriptor.encode(items[put]) &&
           context.queues->put_now(address_.queue, descriptor.bytes(), nullptr))
      ++put;
  };
  (void)participant_.run_now(put_all);
  return put;
}

}  // namespace tensorbus::bus
