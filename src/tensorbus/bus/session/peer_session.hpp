#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tensorbus/values/inspected.hpp>
#include <unordered_map>
#include <variant>
#include <vector>

#include "tensorbus/bus/session/participant_context.hpp"
#include "tensorbus/link/lease/lease_source.hpp"
#include "tensorbus/link/ring/segment_sender.hpp"
#include "tensorbus/link/wire/channel.hpp"
#include "tensorbus/link/wire/control_messages.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {

class KeptElsewhere;
struct LentSample;

// One end of a connection that either side has opened. Sends and serves the requests by which two
// participants lend each other memory (docs/internals/protocol.md, section 6). Owned by its
// connection. On the event loop only.
class PeerSession : public std::enable_shared_from_this<PeerSession> {
 public:
  // The get ring of a queue.
  struct JoinedRing {
    platform::Fd ring;
    std::uint32_t taker = 0;
    std::uint64_t leases = 0;  // the lease at position p has the token `leases` + p
  };
  // An item of a queue of this participant, for one of its own threads.
  struct HeldItem {
    std::uint32_t request = 0;
    std::shared_ptr<LentSample> item;
    std::uint64_t number = 0;
  };
  using Answer = std::variant<link::Lent, link::Staged, memory::SharedSegment, JoinedRing, HeldItem,
                              link::Reply, Error>;
  // Called once, with an Error (the request was denied, or the peer is gone: kClosed), or with:
  // Lent for attach(), acquire() and get(); Staged for stage(); SharedSegment for hand_over();
  // JoinedRing for join_get_ring(); HeldItem for a get() in the queue's own process; Reply for
  // put(), call(), and a get() without an item.
  using OnAnswer = std::function<void(Answer&)>;

  PeerSession(ParticipantContext& context, std::shared_ptr<link::PeerMemory> peer_memory,
              std::shared_ptr<link::SegmentSender> segments);

  // Sets the peer: the sender of HELLO, or the participant that is expected to send it.
  void know(const Id& peer);
  const std::shared_ptr<const link::Source>& source() const noexcept { return source_; }
  const std::shared_ptr<link::PeerMemory>& peer_memory() const noexcept { return peer_memory_; }
  // Returns true if any request was sent or received in this session.
  bool used() const noexcept { return used_; }
  // Marks the session as used, so that its connection is kept.
  void mark_used() noexcept { used_ = true; }
  bool ended() const noexcept { return ended_; }
  // Returns true if the session has ended before the peer handled a request: it had no room for the
  // connection, or hung up before HELLO. All requests may be sent again.
  bool took_nothing() const noexcept { return took_nothing_; }
  // Returns true if the peer is gone. Checks the socket, which shows this before end() is called.
  bool peer_is_gone() const noexcept { return ended_ || peer_memory_->channel->peer_is_gone(); }

  void attach(const Shares::Name& share, memory::Grant grant, OnAnswer on_answer);
  // Requests a lease on at most Acquire::kMaxBlocks blocks.
  void acquire(std::vector<link::BlockName> blocks, memory::Grant grant, OnAnswer on_answer);
  // Requests a copy in host memory of bytes of a block on a device.
  void stage(const link::BlockName& block, std::uint64_t bytes, OnAnswer on_answer);
  // Requests memory of a dead owner. `link` (0: by message) and `token` identify the lease by which
  // the peer lent a sample in this memory.
  void hand_over(const Id& owner, memory::SegmentId segment, memory::Grant grant,
                 std::uint32_t link, std::uint64_t token, OnAnswer on_answer);
  // Keeps memory of a dead participant that the peer has handed over. The memory may be forged by
  // the peer, so it is used only for samples that this peer passes on.
  void keep_handed(const Id& owner, const std::shared_ptr<link::PeerMemory>& memory);
  std::vector<std::shared_ptr<link::PeerMemory>> handed_of(const Id& owner) const;
  // Finds the sample that was lent under this token on a link of this connection. Empty if the
  // connection has no links.
  using FindIssued = std::function<link::PublishedRef(std::uint32_t link, std::uint64_t token)>;
  void find_issued_by(FindIssued find) { find_issued_ = std::move(find); }

  // Requests to the server of a queue (section 7). Each returns the number of the request, or 0 if
  // it was replied to at once.
  std::uint32_t put(const link::QueueName& queue, std::uint32_t flags, const link::Entry& entry,
                    const link::PublishedRef& issued, memory::Grant grant, OnAnswer on_answer);
  // Records a lease on host memory that is sent to the peer through a ring. Returns its token; 0,
  // without a lease, if the peer may not have all segments yet. Throws like put().
  std::uint64_t lend_in_ring(const link::PublishedRef& issued, memory::Grant grant);
  // Drops a lease of lend_in_ring() that was not sent.
  void take_back_lease(std::uint64_t token) noexcept { lent_.erase(token); }
  // Records a lease that the peer has taken from a ring (get_ring.hpp).
  void mark_taken(std::uint64_t token, link::PublishedRef issued) noexcept;
  // Offers a ring (put_ring.hpp) to the queue's server. The answer is a Reply.
  std::uint32_t offer_ring(const link::QueueName& queue, platform::Fd ring, OnAnswer on_answer);
  // Requests the get ring of a queue (get_ring.hpp).
  std::uint32_t join_get_ring(const link::QueueName& queue, OnAnswer on_answer);
  std::uint32_t get(const link::QueueName& queue, std::uint32_t flags, OnAnswer on_answer);
  // `number`: depends on the verb, for example the number of the finished item.
  std::uint32_t call(const link::QueueName& queue, link::QueueVerb verb, std::uint64_t number,
                     OnAnswer on_answer);
  void take(const link::Take& taken) { peer_memory_->channel->send(taken); }
  // `read`: the request is a get whose item was read.
  void cancel(std::uint32_t request, bool read = false);

  // Replies to requests of the peer.
  void lend(std::uint32_t request, const link::Entry& entry, const link::PublishedRef& issued,
            memory::Grant grant, std::uint64_t number = 0);
  void reply(const link::Reply& to_call) { peer_memory_->channel->send(to_call); }
  void deny(std::uint32_t request, const Error& why);

  // Replies to a get() of this session, whose other end belongs to this participant, too.
  void answer_here(HeldItem held);

  // Makes the peer keep a share of this participant under this name. Returns the object whose
  // destruction drops it there; null if the session has ended. The peer sends no reply. `on_answer`
  // is called only if the session ends and took_nothing() is true: with an Error.
  std::shared_ptr<Shares::Elsewhere> keep(const Shares::Name& name, const link::Entry& entry,
                                          const link::PublishedRef& issued, memory::Grant grant,
                                          std::uint64_t carrier, OnAnswer on_answer);
  // Called when the peer's HELLO has come: the peer handles all messages that were sent.
  void on_hello() noexcept {
    was_greeted_ = true;
    keeping_.clear();
  }

  // Returns a lease that is not used here.
  void give_back(const link::Lent& lent);

  // Handles a message. Returns false for types of other handlers. Throws Error(kProtocol).
  bool on_message(link::Channel::Received& received);
  // Handles a message about memory, for which a sample may wait. Like on_message().
  bool on_memory(link::Channel::Received& received);
  // Ends the session, because the peer or this participant is gone: every open request gets an
  // Error with this code. The caller then calls take_back() at once, or when the peer's lineage has
  // ended.
  void end(const std::string& why, Code code = Code::kClosed, bool took_nothing = false);
  bool lends() const noexcept { return !lent_.empty(); }
  // Returns true if it lends memory of other owners, for example of the peer itself.
  bool hands_on() const noexcept;
  // Adds the leases that were lent by message to `sum`.
  void add_lent(LentReport& sum) const noexcept;
  // Returns the peer, for inspections.
  PeerName peer_name() const;
  void take_back();

 private:
  struct Asked {
    link::ControlType answered_by;  // unless the request is denied
    bool may_be_refused = false;    // a REPLY is valid, too
    std::uint64_t token = 0;        // of the lease sent with the request, if any
    OnAnswer on_answer;
  };

  template <typename Request>
  std::uint32_t ask(Request request, link::ControlType answered_by, OnAnswer on_answer,
                    std::vector<platform::Fd> fds = {});
  void answer(std::uint32_t request, link::ControlType by, Answer answer);
  void require_room_for_a_lease() const;
  // Records a lease, and returns the message, which the caller then sends.
  link::Lent lent(const link::Entry& entry, const link::PublishedRef& issued, memory::Grant grant);
  QueueRequests& queues() const;

  // Messages of the peer about its memory.
  void on(const link::SegmentMessage& segment, platform::Fd fd);
  void on(const link::FileMessage& file, platform::Fd fd);
  void on(const link::DeviceSegment& segment, platform::Fd fd);
  void on(link::DeviceExport exported, platform::Fd fd);
  void on(const link::TimelineMessage& timeline, platform::Fd fd);
  void on(const link::Pin& pin);
  void on(const link::Retired& retired);
  void on(const link::DeviceClosed& closed);
  // Requests of the peer, and leases that it returns.
  void on(const link::Attach& asked);
  void on(const link::Acquire& asked);
  void on(const link::Keep& asked);
  void on(const link::Stage& asked);
  void on(const link::HandOver& asked);
  void on(const link::Return& returned);
  void on(const link::Put& asked);
  void on(const link::QueueRing& asked, platform::Fd ring);
  void on(const link::QueueWake& woken);
  void on(const link::JoinGetRing& asked);
  void on(const link::GetRing& lent, platform::Fd ring);
  void on(const link::Get& asked);
  void on(const link::QueueCall& asked);
  void on(const link::Take& taken);
  void on(const link::Cancel& cancelled);
  // Replies of the peer.
  void on(const link::Reply& reply);
  void on(link::Lent lent);
  void on(const link::Staged& staged);
  void on(const link::Handed& handed, platform::Fd fd);
  void on(const link::Denied& denied);

  // `looks`: number of previous attempts.
  void lend_share(const link::Attach& asked, int looks);
  void close_retired();
  void send_closed();
  void lend_copy(std::uint32_t request, const device::HostCopies::Result& result);
  // `looks`: number of previous attempts.
  void hand_over_memory(const link::HandOver& asked, int looks);
  void hand_over_segment(const link::HandOver& asked, memory::BorrowedSegments& segments);
  void hand_over_device_memory(const link::HandOver& asked, device::ImportedMemory& memory);
  void hand_over_later(const link::HandOver& asked, int looks);
  link::PublishedRef issued_under(std::uint32_t link, std::uint64_t token) const;
  void take_back_what_is_reached();
  // Calls `work`, and denies the request if `work` throws.
  void serve(std::uint32_t request, const std::function<void()>& work);
  // Like serve(), for a request accepted before: does not throw if the peer reads no replies.
  void do_or_deny(std::uint32_t request, const std::function<void()>& work);

  ParticipantContext& context_;
  const std::shared_ptr<link::PeerMemory> peer_memory_;
  const std::shared_ptr<link::SegmentSender> segments_;
  std::shared_ptr<const link::Source> source_;
  std::unordered_map<std::uint32_t, Asked> asked_;
  std::uint32_t next_request_ = 1;
  std::unordered_map<std::uint64_t, link::PublishedRef> lent_;
  // Marks of the leases in lent_ that the peer has returned, by token. A lease is kept until the
  // peer's stream reaches its mark.
  std::unordered_map<std::uint64_t, std::uint64_t> returning_;
  // Ranges that the peer has pinned, in segments of this participant.
  std::multimap<memory::SegmentId, memory::Range> pinned_;
  std::uint64_t next_token_ = 1;  // 0: a lease on no memory
  std::size_t staging_ = 0;       // open STAGE requests
  std::size_t handing_over_ = 0;  // requests that wait for the end of an owner
  FindIssued find_issued_;
  std::multimap<Id, std::weak_ptr<link::PeerMemory>> handed_;
  // Shares that keep() sent before the peer's HELLO.
  std::vector<std::pair<std::weak_ptr<KeptElsewhere>, OnAnswer>> keeping_;
  bool closing_retired_ = false;  // for the peer's segments
  bool used_ = false;
  bool ended_ = false;
  bool was_greeted_ = false;  // set on the connecting side only
  bool took_nothing_ = false;
};

}  // namespace tensorbus::bus
