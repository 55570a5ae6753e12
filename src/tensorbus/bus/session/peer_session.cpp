#include "tensorbus/bus/session/peer_session.hpp"

#include <atomic>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "tensorbus/bus/session/queue_requests.hpp"
#include "tensorbus/link/wire/dispatch.hpp"
#include "tensorbus/platform/kill_point.hpp"
#include "tensorbus/platform/leak.hpp"
#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::size_t kMaxLent = std::size_t{1} << 20;

// Returns the descriptor of a sample without tensors if it lies in host memory of this participant
// and is short enough for the message; else an empty span.
std::span<const std::byte> short_descriptor(const link::Entry& entry,
                                            const link::PublishedRef& issued) {
  if (entry.is_inline() || entry.length > link::Lent::kMaxInline || !issued) return {};
  if (issued->blocks().size() != 1) return {};
  const auto descriptor = issued->find(entry.segment, entry.offset, entry.length);
  return descriptor.empty() || tensor::Descriptor::has_tensors(descriptor)
             ? std::span<const std::byte>()
             : descriptor;
}

std::uint32_t as_field(memory::Grant grant) { return grant == memory::Grant::kWrite ? 1 : 0; }

}  // namespace

PeerSession::PeerSession(ParticipantContext& context, std::shared_ptr<link::PeerMemory> peer_memory,
                         std::shared_ptr<link::SegmentSender> segments)
    : context_(context), peer_memory_(std::move(peer_memory)), segments_(std::move(segments)) {}

void PeerSession::know(const Id& peer) {
  source_ = std::make_shared<const link::Source>(link::Source{peer, 0, {}});
  send_closed();
  peer_memory_->pinned->report_by(
      [weak = std::weak_ptr(peer_memory_->channel)](memory::SegmentId segment, memory::Range part) {
        constexpr auto kReleased = static_cast<std::uint32_t>(link::PinVerb::kReleased);
        if (const auto channel = weak.lock())
          channel->send(link::Pin{
              .verb = kReleased, .segment = segment, .begin = part.begin, .end = part.end});
      });
}

void PeerSession::add_lent(LentReport& sum) const noexcept {
  sum.leases += lent_.size();
  for (const auto& [token, sample] : lent_)
    if (sample) sum.bytes += sample->bytes();
}

PeerName PeerSession::peer_name() const {
  return {source_ ? source_->participant : Id{},
          static_cast<std::uint32_t>(peer_memory_->account.pid())};
}

template <typename Request>
std::uint32_t PeerSession::ask(Request request, link::ControlType answered_by, OnAnswer on_answer,
                               std::vector<platform::Fd> fds) {
  if (ended_) {
    Answer closed = Error(Code::kClosed, "the other process has hung up");
    on_answer(closed);
    return 0;
  }
  used_ = true;
  request.request = next_request_++;
  constexpr bool kMayEndByReply = std::is_same_v<Request, link::Get>;  // REPLY: no item
  std::uint64_t token = 0;
  if constexpr (std::is_same_v<Request, link::Put>) token = request.lent.token;
  asked_.emplace(request.request, Asked{answered_by, kMayEndByReply, token, std::move(on_answer)});
  peer_memory_->channel->send(request, std::move(fds));
  platform::kill_point("request.sent");
  return request.request;
}

void PeerSession::attach(const Shares::Name& share, memory::Grant grant, OnAnswer on_answer) {
  ask(link::Attach{0, share.number, share.key, as_field(grant)}, link::ControlType::kLent,
      std::move(on_answer));
}

void PeerSession::acquire(std::vector<link::BlockName> blocks, memory::Grant grant,
                          OnAnswer on_answer) {
  ask(link::Acquire{0, as_field(grant), std::move(blocks)}, link::ControlType::kLent,
      std::move(on_answer));
}

void PeerSession::stage(const link::BlockName& block, std::uint64_t bytes, OnAnswer on_answer) {
  ask(link::Stage{0, block, bytes}, link::ControlType::kStaged, std::move(on_answer));
}

void PeerSession::hand_over(const Id& owner, memory::SegmentId segment, memory::Grant grant,
                            std::uint32_t link, std::uint64_t token, OnAnswer on_answer) {
  ask(link::HandOver{0, owner, segment, as_field(grant), link, token}, link::ControlType::kHanded,
      std::move(on_answer));
}

std::uint32_t PeerSession::put(const link::QueueName& queue, std::uint32_t flags,
                               const link::Entry& entry, const link::PublishedRef& issued,
                               memory::Grant grant, OnAnswer on_answer) {
  if (ended_) return ask(link::Put{}, link::ControlType::kReply, std::move(on_answer));
  const link::Put request{0, queue, flags, lent(entry, issued, grant)};
  try {
    if (request.lent.token != 0 && !segments_->has_arrived(*issued, grant))
      on_answer = [segments = segments_, issued, grant,
                   then = std::move(on_answer)](Answer& answer) {
        const auto* const reply = std::get_if<link::Reply>(&answer);
        if (reply != nullptr && reply->refused == 0) segments->mark_arrived(*issued, grant);
        then(answer);
      };
    return ask(request, link::ControlType::kReply, std::move(on_answer));
  } catch (...) {
    lent_.erase(request.lent.token);
    throw;
  }
}

std::uint64_t PeerSession::lend_in_ring(const link::PublishedRef& issued, memory::Grant grant) {
  if (ended_ || !segments_->has_arrived(*issued, grant)) return 0;
  require_room_for_a_lease();
  lent_.emplace(next_token_, issued);
  return next_token_++;
}

// If memory is short, the sample stays lent forever.
void PeerSession::mark_taken(std::uint64_t token, link::PublishedRef issued) noexcept {
  try {
    lent_.emplace(token, issued);
  } catch (const std::bad_alloc&) {
    platform::leak(std::move(issued));
  }
}

std::uint32_t PeerSession::offer_ring(const link::QueueName& queue, platform::Fd ring,
                                      OnAnswer on_answer) {
  std::vector<platform::Fd> fds;
  fds.push_back(std::move(ring));
  return ask(link::QueueRing{0, queue}, link::ControlType::kReply, std::move(on_answer),
             std::move(fds));
}

std::uint32_t PeerSession::join_get_ring(const link::QueueName& queue, OnAnswer on_answer) {
  return ask(link::JoinGetRing{0, queue}, link::ControlType::kGetRing, std::move(on_answer));
}

std::uint32_t PeerSession::get(const link::QueueName& queue, std::uint32_t flags,
                               OnAnswer on_answer) {
  return ask(link::Get{0, queue, flags}, link::ControlType::kLent, std::move(on_answer));
}

std::uint32_t PeerSession::call(const link::QueueName& queue, link::QueueVerb verb,
                                std::uint64_t number, OnAnswer on_answer) {
  return ask(link::QueueCall{0, queue, static_cast<std::uint32_t>(verb), number},
             link::ControlType::kReply, std::move(on_answer));
}

void PeerSession::cancel(std::uint32_t request, bool read) {
  if (!ended_ && request != 0) peer_memory_->channel->send(link::Cancel{request, read ? 1U : 0U});
}

bool PeerSession::on_message(link::Channel::Received& received) {
  return link::dispatch<link::TakenBy::kSession>(
      received, [this](auto&&... parts) { on(std::forward<decltype(parts)>(parts)...); });
}

void PeerSession::on(const link::Put& asked) {
  serve(asked.request, [&] { queues().on_put(shared_from_this(), asked); });
}

void PeerSession::on(const link::QueueRing& asked, platform::Fd ring) {
  serve(asked.request, [&] { queues().on_ring(shared_from_this(), asked, std::move(ring)); });
}

void PeerSession::on(const link::QueueWake& woken) {
  if (context_.queues) context_.queues->on_wake(woken);
}

void PeerSession::on(const link::JoinGetRing& asked) {
  serve(asked.request, [&] { queues().on_join_get_ring(shared_from_this(), asked); });
}

void PeerSession::on(const link::GetRing& lent, platform::Fd ring) {
  answer(lent.request, link::GetRing::kType, JoinedRing{std::move(ring), lent.taker, lent.leases});
}

void PeerSession::on(const link::Get& asked) {
  serve(asked.request, [&] { queues().on_get(shared_from_this(), asked); });
}

void PeerSession::on(const link::QueueCall& asked) {
  serve(asked.request, [&] { queues().on_call(shared_from_this(), asked); });
}

void PeerSession::on(const link::Take& taken) {
  if (context_.queues) context_.queues->on_take(shared_from_this(), taken);
}

void PeerSession::on(const link::Cancel& cancelled) {
  if (context_.queues) context_.queues->on_cancel(shared_from_this(), cancelled);
}

void PeerSession::on(const link::Reply& reply) { answer(reply.request, link::Reply::kType, reply); }

void PeerSession::on(link::Lent lent) {
  const std::uint32_t request = lent.request;
  answer(request, link::Lent::kType, std::move(lent));
}

void PeerSession::on(const link::Staged& staged) {
  answer(staged.request, link::Staged::kType, staged);
}

void PeerSession::on(const link::Handed& handed, platform::Fd fd) {
  memory::SharedSegment segment{std::move(fd), handed.bytes, std::nullopt, handed.device};
  if (handed.is_file != 0) segment.file = {handed.offset, link::as_text(handed.path)};
  answer(handed.request, link::Handed::kType, std::move(segment));
}

void PeerSession::on(const link::Denied& denied) {
  answer(denied.request, link::Denied::kType,
         Error(link::code_of(denied.code), link::as_reason(denied.text)));
}

// Throws Error(kProtocol) if the reply belongs to no open request. A lease that came with it is not
// returned.
void PeerSession::answer(std::uint32_t request, link::ControlType by, Answer answer) {
  const auto found = asked_.find(request);
  if (found == asked_.end())
    throw Error(Code::kProtocol,
                "answer.request: " + std::to_string(request) + " is no open request");
  const bool to_get = by == link::ControlType::kReply && found->second.may_be_refused;
  if (by != link::ControlType::kDenied && by != found->second.answered_by && !to_get)
    throw Error(Code::kProtocol,
                "answer.request: " + std::to_string(request) + " expects another message");
  const OnAnswer on_answer = std::move(found->second.on_answer);
  asked_.erase(found);
  on_answer(answer);
}

void PeerSession::answer_here(HeldItem held) {
  const std::uint32_t request = held.request;
  answer(request, link::Lent::kType, std::move(held));
}

QueueRequests& PeerSession::queues() const {
  if (!context_.queues) throw Error(Code::kClosed, "this participant has no queues");
  return *context_.queues;
}

void PeerSession::require_room_for_a_lease() const {
  if (lent_.size() >= kMaxLent)
    throw Error(Code::kOutOfMemory, "more than 2^20 leases of one process: release some");
}

link::Lent PeerSession::lent(const link::Entry& entry, const link::PublishedRef& issued,
                             memory::Grant grant) {
  require_room_for_a_lease();
  link::Lent lent{0, 0, entry.length, entry.segment, entry.offset, {}, 0};
  if (entry.is_inline())
    lent.inline_bytes.assign(reinterpret_cast<const char*>(entry.inline_bytes.data()),
                             entry.length);
  if (const auto descriptor = short_descriptor(entry, issued); !descriptor.empty()) {
    lent.segment = memory::SegmentId::none();
    lent.offset = 0;
    lent.inline_bytes.assign(reinterpret_cast<const char*>(descriptor.data()), descriptor.size());
  } else if (issued) {
    for (const memory::BlockRef& block : issued->blocks())
      segments_->ensure_sent(block->segment(), grant);
    for (const memory::SegmentId file : issued->files()) segments_->ensure_sent(file, grant);
    lent.mark = segments_->mark_for(issued, nullptr).packed();
    lent.token = next_token_++;
    lent_.emplace(lent.token, issued);
  }
  return lent;
}

void PeerSession::lend(std::uint32_t request, const link::Entry& entry,
                       const link::PublishedRef& issued, memory::Grant grant,
                       std::uint64_t number) {
  link::Lent message = lent(entry, issued, grant);
  message.request = request;
  message.number = number;
  try {
    peer_memory_->channel->send(message);
  } catch (...) {
    lent_.erase(message.token);
    throw;
  }
  platform::kill_point("lent.sent");
}

class KeptElsewhere final : public Shares::Elsewhere {
 public:
  KeptElsewhere(const std::shared_ptr<link::Channel>& channel, const Shares::Name& name)
      : channel_(channel),
        drop_(
            link::Channel::prepare(link::Keep{.share = name.number, .key = name.key, .drop = 1})) {}
  ~KeptElsewhere() override {
    const auto channel = left_.load(std::memory_order_relaxed) ? nullptr : channel_.lock();
    if (channel) channel->send(std::move(drop_));
  }
  void leave() noexcept override { left_.store(true, std::memory_order_relaxed); }
  bool has_it() const override {
    if (is_lost_.load(std::memory_order_relaxed)) return false;
    const auto channel = channel_.lock();
    return !channel || channel->has_taken(sent_);
  }
  // Called after KEEP was sent.
  void mark_sent(link::Channel& channel) { sent_ = channel.mark(); }
  // Called when KEEP was not handled: it is sent again.
  void mark_lost() noexcept { is_lost_.store(true, std::memory_order_relaxed); }

 private:
  const std::weak_ptr<link::Channel> channel_;
  link::Channel::Prepared drop_;
  std::uint64_t sent_ = 0;             // constant once Shares has this object
  std::atomic<bool> left_ = false;     // relaxed: the mutex of Shares orders it before destruction
  std::atomic<bool> is_lost_ = false;  // relaxed: it orders no other data
};

std::shared_ptr<Shares::Elsewhere> PeerSession::keep(const Shares::Name& name,
                                                     const link::Entry& entry,
                                                     const link::PublishedRef& issued,
                                                     memory::Grant grant, std::uint64_t carrier,
                                                     OnAnswer on_answer) {
  if (ended_) return nullptr;
  used_ = true;
  auto elsewhere = std::make_shared<KeptElsewhere>(peer_memory_->channel, name);
  const link::Keep message{.share = name.number,
                           .key = name.key,
                           .carrier = carrier,
                           .writable = as_field(grant),
                           .lent = lent(entry, issued, grant)};
  try {
    peer_memory_->channel->send(message);
  } catch (...) {
    lent_.erase(message.lent.token);
    throw;
  }
  elsewhere->mark_sent(*peer_memory_->channel);
  if (!was_greeted_) keeping_.emplace_back(elsewhere, std::move(on_answer));
  return elsewhere;
}

void PeerSession::give_back(const link::Lent& lent) {
  if (lent.token != 0) peer_memory_->channel->send(link::Return{lent.token});
}

bool PeerSession::hands_on() const noexcept {
  return std::ranges::any_of(
      lent_, [](const auto& lent) { return lent.second && lent.second->has_leases(); });
}

void PeerSession::take_back() {
  for (const auto& [token, mark] : std::exchange(returning_, {}))
    if (const auto found = lent_.find(token); found != lent_.end())
      segments_->keep_until(mark, found->second);
  lent_.clear();
}

void PeerSession::end(const std::string& why, Code code, bool took_nothing) {
  ended_ = true;
  took_nothing_ = took_nothing;
  peer_memory_->pinned->owner_gone();
  // The peer has unpinned its blocks, or is dead. If it hung up with pins, it loses them.
  for (const auto& [segment, part] : std::exchange(pinned_, {}))
    context_.arena->unpin(segment, part);
  if (context_.queues) context_.queues->forget(shared_from_this());
  auto asked = std::exchange(asked_, {});
  for (auto& [request, waiting] : asked) {
    lent_.erase(waiting.token);  // the item is in no queue, so no child of the peer has it
    Answer ended = Error(code, why.empty() ? "the other process has exited, or hung up" : why);
    waiting.on_answer(ended);
  }
  for (auto& [elsewhere, on_answer] : std::exchange(keeping_, {})) {
    if (!took_nothing) continue;
    if (const auto kept = elsewhere.lock()) kept->mark_lost();
    Answer ended = Error(code, why);
    on_answer(ended);
  }
  context_.on_session_end();
}

}  // namespace tensorbus::bus
