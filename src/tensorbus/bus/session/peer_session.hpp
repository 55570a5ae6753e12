#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
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

// What two participants lend each other by message (docs/protocol.md, section 6): one end of a
// connection, whoever opened it. On the event loop only.
class PeerSession : public std::enable_shared_from_this<PeerSession> {
 public:
  // An Error: denied, or the peer is gone (kClosed).
  using Answer = std::variant<link::Lent, link::Staged, memory::SharedSegment, link::Reply, Error>;
  // Called once. What it is given, unless an Error: Lent; for a hand_over() a SharedSegment; for a
  // stage() Staged; Reply for what a queue is asked, or Lent when that is for an item.
  using OnAnswer = std::function<void(Answer&)>;

  PeerSession(ParticipantContext& context, std::shared_ptr<link::PeerMemory> peer_memory,
              std::shared_ptr<link::SegmentSender> segments);

  // Who said HELLO, or is expected to.
  void know(const Id& peer);
  const std::shared_ptr<const link::Source>& source() const noexcept { return source_; }
  const std::shared_ptr<link::PeerMemory>& peer_memory() const noexcept { return peer_memory_; }
  // Has anything been asked or lent here?
  bool used() const noexcept { return used_; }
  bool ended() const noexcept { return ended_; }
  // Asks the kernel: it knows before end() is called.
  bool peer_is_gone() const noexcept { return ended_ || peer_memory_->channel->peer_is_gone(); }

  void attach(const Shares::Name& share, memory::Grant grant, OnAnswer on_answer);
  // At most Claim::kMostBlocks.
  void claim(std::vector<link::BlockName> blocks, memory::Grant grant, OnAnswer on_answer);
  // A copy in host memory of bytes of a block on a device.
  void stage(const link::BlockName& block, std::uint64_t bytes, OnAnswer on_answer);
  // `link`, `token`: under which the peer has lent what lies there; of a link, or 0 by message.
  void hand_over(const Id& owner, memory::SegmentId segment, memory::Grant grant,
                 std::uint32_t link, std::uint64_t token, OnAnswer on_answer);
  // What the peer has handed over of a participant that is dead. It is the peer's word, so it
  // serves for what the peer hands on, and for nobody else's.
  void keep_handed(const Id& owner, const std::shared_ptr<link::PeerMemory>& memory);
  std::vector<std::shared_ptr<link::PeerMemory>> handed_of(const Id& owner) const;
  // Who knows what is out on the links of this connection. Null: there are none.
  using FindIssued = std::function<link::PublishedRef(std::uint32_t link, std::uint64_t token)>;
  void find_issued_by(FindIssued find) { find_issued_ = std::move(find); }

  // To the host of a queue (section 7). Each returns the number of the request, 0 if it was
  // answered already.
  std::uint32_t put(const link::QueueName& queue, std::uint32_t flags, const link::Entry& entry,
                    const link::PublishedRef& issued, memory::Grant grant, OnAnswer on_answer);
  std::uint32_t get(const link::QueueName& queue, std::uint32_t flags, OnAnswer on_answer);
  // `number`: of the item that is done.
  std::uint32_t call(const link::QueueName& queue, link::QueueVerb verb, std::uint64_t number,
                     OnAnswer on_answer);
  void take(const link::Take& taken) { peer_memory_->channel->send(taken); }
  void cancel(std::uint32_t request);

  // To a client of a queue: the answers to its requests.
  void lend(std::uint32_t request, const link::Entry& entry, const link::PublishedRef& issued,
            memory::Grant grant, std::uint64_t number = 0);
  void tell(link::Reply told) { peer_memory_->channel->send(told); }
  void deny(std::uint32_t request, const Error& why);

  // What a peer lent us and nobody here takes.
  void give_back(const link::Lent& lent);

  // False: it is for somebody else. Throws Error(kProtocol).
  bool on_message(link::Channel::Received& received);
  // The same of what the peer says of memory that a sample may wait for.
  bool on_memory(link::Channel::Received& received);
  // The peer is gone, or we are: who waits for an answer gets one. Then, or when the peer's lineage
  // has ended, take_back() what was lent.
  void end(const std::string& why);
  bool lends() const noexcept { return !lent_.empty(); }
  void take_back();

 private:
  struct Asked {
    link::ControlType answered_by;  // unless it is denied
    bool may_be_told = false;       // as well
    OnAnswer on_answer;
  };

  template <typename Request>
  std::uint32_t ask(Request request, link::ControlType answered_by, OnAnswer on_answer);
  void answer(std::uint32_t request, link::ControlType by, Answer answer);
  void require_room_for_a_lease() const;
  // Enters a lease before anybody can know of it.
  link::Lent lent(const link::Entry& entry, const link::PublishedRef& issued, memory::Grant grant);
  QueueRequests& queues() const;

  // What the peer says: of its memory,
  void on(const link::SegmentMessage& segment, platform::Fd fd);
  void on(const link::FileMessage& file, platform::Fd fd);
  void on(const link::DeviceSegment& segment, platform::Fd fd);
  void on(link::DeviceExport said, platform::Fd fd);
  void on(const link::TimelineMessage& timeline, platform::Fd fd);
  void on(const link::Pin& pin);
  void on(const link::Retired& retired);
  void on(const link::DeviceClosed& closed);
  // what it asks for and gives back,
  void on(const link::Attach& asked);
  void on(const link::Claim& asked);
  void on(const link::Stage& asked);
  void on(const link::HandOver& asked);
  void on(const link::Return& returned);
  void on(const link::Put& asked);
  void on(const link::Get& asked);
  void on(const link::QueueCall& asked);
  void on(const link::Take& taken);
  void on(const link::Cancel& cancelled);
  // and what it answers.
  void on(const link::Reply& reply);
  void on(link::Lent lent);
  void on(const link::Staged& staged);
  void on(const link::Handed& handed, platform::Fd fd);
  void on(const link::Denied& denied);

  void close_retired();
  void tell_what_is_closed();
  void lend_copy(std::uint32_t request, const memory::HostCopies::Result& result);
  // `looks`: how often it was tried before.
  void hand_over_memory(const link::HandOver& asked, int looks);
  void hand_over_segment(const link::HandOver& asked, memory::BorrowedSegments& segments);
  void hand_over_device_memory(const link::HandOver& asked, memory::ImportedMemory& memory);
  void hand_over_later(const link::HandOver& asked, int looks);
  link::PublishedRef issued_under(std::uint32_t link, std::uint64_t token) const;
  void take_back_what_is_reached();
  // Has `work` done, or the request denied.
  void serve(std::uint32_t request, const std::function<void()>& work);
  // The same, of what was taken on before: does not throw because the peer reads no answers.
  void do_or_deny(std::uint32_t request, const std::function<void()>& work);

  ParticipantContext& context_;
  const std::shared_ptr<link::PeerMemory> peer_memory_;
  const std::shared_ptr<link::SegmentSender> segments_;
  std::shared_ptr<const link::Source> source_;
  std::unordered_map<std::uint32_t, Asked> asked_;
  std::uint32_t next_request_ = 1;
  std::unordered_map<std::uint64_t, link::PublishedRef> lent_;
  // Of these: on their way back, behind a stream of the peer's that has yet to reach the mark.
  std::unordered_map<std::uint64_t, std::uint64_t> returning_;
  std::multimap<memory::SegmentId, memory::Range> pinned_;  // at the peer, by segment of ours
  std::uint64_t next_token_ = 1;                            // 0 is a lease on nothing
  std::size_t staging_ = 0;                                 // requests
  std::size_t handing_over_ = 0;                            // requests that wait for a death
  FindIssued find_issued_;
  std::multimap<Id, std::weak_ptr<link::PeerMemory>> handed_;
  bool closing_retired_ = false;  // of the peer's segments
  bool used_ = false;
  bool ended_ = false;
};

}  // namespace tensorbus::bus
