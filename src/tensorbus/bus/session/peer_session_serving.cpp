// Serves a peer's requests for leases and pins.
#include <chrono>
#include <new>

#include "tensorbus/bus/session/own_memory.hpp"
#include "tensorbus/bus/session/peer_session.hpp"
#include "tensorbus/bus/session/queue_requests.hpp"
#include "tensorbus/platform/kill_point.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::size_t kMaxUnread = 4096;  // replies that the peer did not read
constexpr std::size_t kMaxPinned = 4096;  // blocks of one peer
constexpr std::chrono::milliseconds kLookAtMarks{2};
constexpr std::chrono::milliseconds kLookForKept{5};  // for a share that is kept
constexpr int kMaxLooks = 200;

}  // namespace

void PeerSession::serve(std::uint32_t request, const std::function<void()>& work) {
  used_ = true;
  if (peer_memory_->channel->waiting() >= kMaxUnread)
    throw Error(Code::kProtocol, "the peer sends requests, but does not read the replies");
  do_or_deny(request, work);
}

// Prepares the denial for a lack of memory first: sending it must not allocate.
void PeerSession::do_or_deny(std::uint32_t request, const std::function<void()>& work) {
  auto no_memory =
      link::Channel::prepare(link::Denied{request, static_cast<std::uint32_t>(Code::kOutOfMemory),
                                          "the process that got the request has no memory left"});
  try {
    work();
  } catch (const Error& error) {
    deny(request, error);
  } catch (const std::bad_alloc&) {
    peer_memory_->channel->send(std::move(no_memory));
  }
}

void PeerSession::deny(std::uint32_t request, const Error& why) {
  peer_memory_->channel->send(link::Denied{request, static_cast<std::uint32_t>(why.code()),
                                           std::string(why.what()).substr(0, 1024)});
}

void PeerSession::on(const link::Attach& asked) {
  (void)link::grant_of(asked.writable, "ATTACH.writable");
  serve(asked.request, [&] { lend_share(asked, 0); });
}

// If a share of another process is not kept here yet, tries again for a second: KEEP may still be
// unread in that process's socket.
void PeerSession::lend_share(const link::Attach& asked, int looks) {
  const bool kept = (asked.share & Shares::kKept) != 0;
  if (kept && looks < kMaxLooks && !context_.shares.open(asked.share)) {
    context_.loop.post_later(kLookForKept, [weak = weak_from_this(), asked, looks] {
      const auto self = weak.lock();
      if (self && !self->ended_)
        self->do_or_deny(asked.request, [&] { self->lend_share(asked, looks + 1); });
    });
    return;
  }
  const memory::Grant grant = link::grant_of(asked.writable, "ATTACH.writable");
  const Shares::Offer offer = context_.shares.find({asked.share, asked.key}, grant);
  context_.shares.count_use(asked.share);
  try {
    lend(asked.request, offer.entry, offer.issued, grant);
  } catch (...) {
    context_.shares.undo_use(asked.share);
    throw;
  }
  context_.shares.end_if_spent(asked.share);
}

void PeerSession::on(const link::Keep& asked) {
  used_ = true;
  context_.keep(shared_from_this(), asked);
}

void PeerSession::on(const link::Acquire& asked) {
  const memory::Grant grant = link::grant_of(asked.writable, "ACQUIRE.writable");
  platform::kill_point("acquire.received");
  serve(asked.request,
        [&] { lend(asked.request, {}, own_memory(context_, asked.blocks, grant), grant); });
}

// A GPU sends no notification when it writes a counter. So the event loop polls the counter while a
// returned lease waits for its mark.
void PeerSession::on(const link::Return& returned) {
  if (context_.queues && !lent_.contains(returned.token)) context_.queues->collect_all_taken();
  if (segments_->reached(returned.mark)) {
    lent_.erase(returned.token);
    return;
  }
  if (!lent_.contains(returned.token)) return;
  const bool first = returning_.empty();
  returning_.emplace(returned.token, returned.mark);
  if (first) take_back_what_is_reached();
}

void PeerSession::take_back_what_is_reached() {
  std::erase_if(returning_, [this](const auto& item) {
    if (!segments_->reached(item.second)) return false;
    lent_.erase(item.first);
    return true;
  });
  if (returning_.empty() || ended_) return;
  context_.loop.post_later(kLookAtMarks, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->take_back_what_is_reached();
  });
}

// The borrower sends kAsk and kReleased, the owner sends kGranted and kRefused.
void PeerSession::on(const link::Pin& pin) {
  const memory::Range part{pin.begin, pin.end};
  switch (static_cast<link::PinVerb>(pin.verb)) {
    case link::PinVerb::kAsk: {
      if (peer_memory_->channel->waiting() >= kMaxUnread)
        throw Error(Code::kProtocol, "the peer sends requests, but does not read the replies");
      link::Pin answer = pin;
      const auto node = pinned_.emplace(pin.segment, memory::Range{});
      const auto granted = pinned_.size() <= kMaxPinned
                               ? context_.arena->pin(pin.segment, pin.offset, pin.generation)
                               : std::nullopt;
      if (granted)
        node->second = *granted;
      else
        pinned_.erase(node);
      answer.verb =
          static_cast<std::uint32_t>(granted ? link::PinVerb::kGranted : link::PinVerb::kRefused);
      answer.begin = granted.value_or(memory::Range{}).begin;
      answer.end = granted.value_or(memory::Range{}).end;
      return peer_memory_->channel->send(answer);
    }
    case link::PinVerb::kGranted:
      return peer_memory_->pinned->answer({pin.segment, pin.offset, pin.generation}, part);
    case link::PinVerb::kRefused:
      return peer_memory_->pinned->answer({pin.segment, pin.offset, pin.generation}, std::nullopt);
    case link::PinVerb::kReleased: {
      const auto [begin, end] = pinned_.equal_range(pin.segment);
      const auto found =
          std::find_if(begin, end, [&](const auto& item) { return item.second == part; });
      if (found == end) throw Error(Code::kProtocol, "PIN.begin: nothing is pinned there");
      pinned_.erase(found);
      return context_.arena->unpin(pin.segment, part);
    }
  }
  throw Error(Code::kProtocol, "PIN.verb: " + std::to_string(pin.verb));
}

}  // namespace tensorbus::bus
