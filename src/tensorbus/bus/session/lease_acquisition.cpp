#include "tensorbus/bus/session/lease_acquisition.hpp"

#include <algorithm>
#include <chrono>
#include <new>

#include "tensorbus/bus/session/patient_request.hpp"
#include "tensorbus/link/ring/message_lease_source.hpp"

namespace tensorbus::bus {
namespace {

using namespace std::chrono_literals;

constexpr auto kRetryDelay = 20ms;
constexpr int kMaxTries = 10;
constexpr auto kNoRoomDelay = 100ms;

}  // namespace

void LeaseAcquisition::start(ParticipantContext& context, const tensor::Descriptor& descriptor,
                             LentBy lent_by, memory::Grant grant, OnAcquired on_acquired) {
  const std::shared_ptr<LeaseAcquisition> self(
      new LeaseAcquisition(context, std::move(lent_by), grant, std::move(on_acquired)));
  self->shares_.resize(descriptor.owners.size());
  self->acquired_.lenders.resize(descriptor.owners.size());
  for (std::size_t i = 0; i < descriptor.owners.size(); ++i)
    self->shares_[i].owner = descriptor.owners[i];
  for (const tensor::TensorEntry& entry : descriptor.tensors) {
    const ByteSpan span = span_of(entry.layout);
    if (entry.owner == 0 || span.bytes() == 0) continue;
    const std::uint64_t first = entry.offset + static_cast<std::uint64_t>(span.begin);
    Share& share = self->shares_[entry.owner - 1U];
    share.blocks.insert({entry.segment, first, entry.generation});
    share.on_device = share.on_device || entry.kind == memory::BufferKind::kDevice;
  }
  self->waiting_for_ = self->shares_.size() + 1;  // plus one: does not end before all are sent
  self->guarded([&] {
    for (std::size_t i = 0; i < self->shares_.size(); ++i) self->acquire(i);
  });
  self->one_done();
}

void LeaseAcquisition::acquire(std::size_t owner) {
  context_.reach(shares_[owner].owner,
                 [self = shared_from_this(), owner](const std::shared_ptr<PeerSession>& session) {
                   self->guarded([&] {
                     if (session)
                       self->ask(owner, session);
                     else
                       self->inherit(owner);
                   });
                 });
}

void LeaseAcquisition::ask(std::size_t owner, const std::shared_ptr<PeerSession>& session) {
  const std::set<link::BlockName>& blocks = shares_[owner].blocks;
  std::vector<std::vector<link::BlockName>> parts(1);
  for (const link::BlockName& block : blocks) {
    if (parts.back().size() == link::Acquire::kMaxBlocks) parts.emplace_back();
    parts.back().push_back(block);
  }
  waiting_for_ += parts.size() - 1;
  for (std::vector<link::BlockName>& part : parts) {
    session->acquire(std::move(part), grant_,
                     [self = shared_from_this(), owner, peer_memory = session->peer_memory(),
                      session](PeerSession::Answer& answer) {
                       self->guarded([&] {
                         if (const auto* lent = std::get_if<link::Lent>(&answer)) {
                           self->add_lease(owner, peer_memory, *lent);
                           return self->one_done();
                         }
                         const Error& error = std::get<Error>(answer);
                         if (session->ended()) return self->acquire_again(owner, error);
                         self->fail(error);
                       });
                     });
  }
}

// Tries again: the owner had no room for the connection, or hung up before it replied. A dying
// process closes its sockets one by one. Only its listening socket shows its death to all processes
// in the same way.
void LeaseAcquisition::acquire_again(std::size_t owner, const Error& why) {
  Share& share = shares_[owner];
  if (share.failing) return one_done();  // another part of the request retries
  const bool no_room = why.code() == Code::kOutOfMemory;
  if (no_room && std::chrono::steady_clock::now() - began_ > PatientRequest::kPatience)
    return fail(why);
  if (!no_room && ++share.tries == kMaxTries)
    return fail(Error(Code::kClosed, "its owner closes each connection"));
  share.failing = true;
  context_.loop.post_later(no_room ? kNoRoomDelay : kRetryDelay,
                           [self = shared_from_this(), owner] {
                             self->shares_[owner].failing = false;
                             self->guarded([&] { self->acquire(owner); });
                           });
}

// Uses memory of a dead owner that this process or the sender has. GPU memory is always requested
// from the sender: only the sender's lease shows whether the memory was complete when the owner
// died.
void LeaseAcquisition::inherit(std::size_t owner) {
  std::set<memory::SegmentId> segments;
  for (const link::BlockName& block : shares_[owner].blocks) segments.insert(block.segment);
  auto& peer_memory = shares_[owner].peer_memory;
  peer_memory = orphaned_memory_with(owner, segments);
  const bool all_here = peer_memory != nullptr;
  if (!all_here) peer_memory = std::make_shared<link::PeerMemory>();
  if (!all_here && lent_by_.session)
    peer_memory->pay_from(lent_by_.session->peer_memory()->account);
  if (shares_[owner].on_device) peer_memory->imported.set_timeline_of_the_dead();
  if (all_here)
    std::erase_if(segments, [](memory::SegmentId segment) { return !segment.on_device(); });
  waiting_for_ += segments.size();
  for (const memory::SegmentId segment : segments) inherit_segment(owner, segment);
  add_lease(owner, peer_memory, {});
  one_done();
}

// Returns the owner's memory that has all segments, lent by the owner or handed over by this
// sender; else null.
std::shared_ptr<link::PeerMemory> LeaseAcquisition::orphaned_memory_with(
    std::size_t owner, const std::set<memory::SegmentId>& segments) {
  auto estate = context_.orphaned_memory_of(shares_[owner].owner);
  if (lent_by_.session)
    for (auto& handed : lent_by_.session->handed_of(shares_[owner].owner))
      estate.push_back(std::move(handed));
  const auto found = std::find_if(estate.begin(), estate.end(), [&](const auto& left) {
    return std::all_of(segments.begin(), segments.end(), [&](memory::SegmentId segment) {
      return segment.on_device() ? left->imported.has(segment, grant_)
                                 : left->segments_for(grant_).find(segment) != nullptr;
    });
  });
  return found != estate.end() ? *found : nullptr;
}

void LeaseAcquisition::inherit_segment(std::size_t owner, memory::SegmentId segment) {
  if (!lent_by_.session)
    return fail(Error(Code::kClosed, "its owner and the process that handed it on are dead"));
  lent_by_.session->hand_over(
      shares_[owner].owner, segment, grant_, lent_by_.link, lent_by_.token,
      [self = shared_from_this(), owner, segment](PeerSession::Answer& answer) {
        self->guarded([&] {
          auto* handed = std::get_if<memory::SharedSegment>(&answer);
          if (handed == nullptr) return self->fail(std::get<Error>(answer));
          self->take_over(owner, segment, *handed);
          self->one_done();
        });
      });
}

void LeaseAcquisition::take_over(std::size_t owner, memory::SegmentId segment,
                                 memory::SharedSegment& handed) {
  const Share& share = shares_[owner];
  device::ImportedMemory& imported = share.peer_memory->imported;
  memory::BorrowedSegments& segments = share.peer_memory->segments_for(grant_);
  if (segment.on_device()) {
    if (imported.has(segment, grant_)) return;  // the reply shows that it is complete
    imported.add(segment, grant_, std::move(handed.fd), handed.bytes, {handed.device.bytes});
  } else if (handed.file) {
    segments.add_file(segment, std::move(handed.fd), handed.bytes, *handed.file);
  } else {
    segments.add(segment, std::move(handed.fd), handed.bytes);
  }
  lent_by_.session->keep_handed(share.owner, share.peer_memory);
}

void LeaseAcquisition::add_lease(std::size_t owner,
                                 const std::shared_ptr<link::PeerMemory>& peer_memory,
                                 const link::Lent& lent) {
  auto source = std::make_shared<const link::Source>(link::Source{shares_[owner].owner, 0, {}});
  auto lender = std::make_shared<link::MessageLeaseSource>(std::move(source), peer_memory, grant_,
                                                           context_.lent, lent.token);
  auto lease = std::make_shared<link::Lease>(lender, lent.token);
  if (shares_[owner].on_device) lease->on_device(device::Mark::unpack(lent.mark));
  acquired_.leases.push_back(std::move(lease));
  acquired_.lenders[owner] = std::move(lender);
}

void LeaseAcquisition::one_done() {
  if (--waiting_for_ != 0 || !on_acquired_) return;
  std::exchange(on_acquired_, {})(std::move(acquired_));
}

void LeaseAcquisition::fail(const Error& error) {
  if (!on_acquired_) return;
  std::exchange(on_acquired_, {})(
      error.code() == Code::kClosed
          ? Error(Code::kClosed,
                  std::string("the memory of a sample that was handed on is gone: ") + error.what())
          : error);
}

template <typename Work>
void LeaseAcquisition::guarded(Work work) {
  try {
    work();
  } catch (const Error& error) {
    fail(error);
  } catch (const std::bad_alloc&) {
    fail(Error(Code::kOutOfMemory, "no memory to take over a lease"));
  }
}

}  // namespace tensorbus::bus
