// Serves peers that need memory of a dead participant that this process has mapped.
#include <algorithm>
#include <chrono>

#include "tensorbus/bus/session/peer_session.hpp"
#include "tensorbus/platform/kill_point.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::chrono::milliseconds kLookAgain{2};
constexpr int kLooksForAnEnd = 50;
constexpr std::size_t kMaxWaiting = 4096;  // requests of one peer

Error not_here() {
  return {Code::kClosed, "HAND_OVER.segment: it is not mapped here, or its owner is alive"};
}

}  // namespace

void PeerSession::on(const link::HandOver& asked) {
  serve(asked.request, [&] { hand_over_memory(asked, 0); });
}

// Hands over only the memory in which the sample itself lies, and no other memory of a process that
// claims to be the owner. So the peer reads the same bytes as this process.
void PeerSession::hand_over_memory(const link::HandOver& asked, int looks) {
  const memory::Grant grant = link::grant_of(asked.writable, "HAND_OVER.writable");
  const bool on_device = asked.segment.on_device();
  const link::PublishedRef issued = issued_under(asked.link, asked.token);
  link::PeerMemory* const memory = issued ? issued->memory_of(asked.owner, asked.segment) : nullptr;
  const bool here =
      memory != nullptr && (on_device ? memory->imported.has(asked.segment, grant)
                                      : memory->segments_for(grant).find(asked.segment) != nullptr);
  if (!here || !context_.is_dead(asked.owner)) throw not_here();
  // The owner's listening socket may close before its connections. Or the file of the socket was
  // removed, and the owner, which is alive, makes it again.
  if (!memory->is_over() && looks < kLooksForAnEnd) return hand_over_later(asked, looks);
  if (!on_device) return hand_over_segment(asked, memory->segments_for(grant));
  if (!issued->is_settled()) return hand_over_later(asked, looks);
  if (!issued->intact())
    throw Error(Code::kClosed, "its owner died before its GPU had written the sample");
  hand_over_device_memory(asked, memory->imported);
}

void PeerSession::hand_over_segment(const link::HandOver& asked,
                                    memory::BorrowedSegments& segments) {
  memory::SharedSegment handed = segments.hand_on(asked.segment);
  std::vector<platform::Fd> fds;
  fds.push_back(std::move(handed.fd));
  link::Handed answer{asked.request, handed.bytes, handed.file ? 1U : 0U, 0, {}};
  if (handed.file) answer.offset = handed.file->offset;
  if (handed.file) answer.path = handed.file->path;
  peer_memory_->channel->send(answer, std::move(fds));
  platform::kill_point("handed.sent");
}

void PeerSession::hand_over_device_memory(const link::HandOver& asked,
                                          device::ImportedMemory& memory) {
  const memory::Grant grant = link::grant_of(asked.writable, "HAND_OVER.writable");
  memory::SharedSegment handed = memory.hand_on(asked.segment, grant);
  std::vector<platform::Fd> fds;
  fds.push_back(std::move(handed.fd));
  peer_memory_->channel->send(
      link::Handed{.request = asked.request, .bytes = handed.bytes, .device = handed.device},
      std::move(fds));
  platform::kill_point("handed.sent");
}

// Tries again later. A dying process closes its sockets before its GPU contexts: its last writes
// may still be under way. The request waits until their result is known.
void PeerSession::hand_over_later(const link::HandOver& asked, int looks) {
  if (handing_over_ >= kMaxWaiting)
    throw Error(Code::kOutOfMemory, "too many requests at once for the memory of dead processes");
  context_.loop.post_later(kLookAgain, [weak = weak_from_this(), asked, looks] {
    const auto self = weak.lock();
    if (!self) return;
    --self->handing_over_;
    if (!self->ended_)
      self->do_or_deny(asked.request, [&] { self->hand_over_memory(asked, looks + 1); });
  });
  ++handing_over_;
}

void PeerSession::keep_handed(const Id& owner, const std::shared_ptr<link::PeerMemory>& memory) {
  std::erase_if(handed_, [&](const auto& item) {
    const auto known = item.second.lock();
    return !known || known == memory;
  });
  handed_.emplace(owner, memory);
}

std::vector<std::shared_ptr<link::PeerMemory>> PeerSession::handed_of(const Id& owner) const {
  std::vector<std::shared_ptr<link::PeerMemory>> all;
  const auto [begin, end] = handed_.equal_range(owner);
  for (auto at = begin; at != end; ++at)
    if (auto memory = at->second.lock()) all.push_back(std::move(memory));
  return all;
}

link::PublishedRef PeerSession::issued_under(std::uint32_t link, std::uint64_t token) const {
  if (link != 0) return find_issued_ ? find_issued_(link, token) : nullptr;
  const auto found = lent_.find(token);
  return found != lent_.end() ? found->second : nullptr;
}

}  // namespace tensorbus::bus
