#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tensorbus/bus/connection/connection.hpp"
#include "tensorbus/bus/event_loop/lineage.hpp"
#include "tensorbus/bus/session/participant_context.hpp"
#include "tensorbus/bus/session/peer_session.hpp"
#include "tensorbus/bus/subscribe/receiver.hpp"
#include "tensorbus/link/ring/borrower_link.hpp"
#include "tensorbus/link/wire/peer.hpp"

namespace tensorbus::bus {

// A connection to an owner, and the links of this participant's subscribers over it. Used only on
// the event loop. Leases keep the part that they need (link::PeerMemory).
class OutboundConnection {
 public:
  using OnEnd = std::function<void(OutboundConnection&, const std::string& why)>;
  // Called when a subscription has ended although its publisher may go on: the owner has hung up,
  // or has no room for the subscription now. Must not throw.
  using OnLost = std::function<void(const std::shared_ptr<Receiver>&, std::uint32_t publisher)>;

  // Throws Error(kPermission) if the peer belongs to another user, memory::PeerLimit if there is no
  // room for one more connection.
  OutboundConnection(ParticipantContext& context, const Id& owner, platform::Fd socket,
                     OnEnd on_end, OnLost on_lost = {});

  ~OutboundConnection() { connection_.close(); }  // before the watched pidfd is closed

  const Id& owner() const noexcept { return owner_; }

  void subscribe(const std::shared_ptr<Receiver>& subscriber, std::uint32_t publisher);
  // Called when the owner is gone, or when this participant closes. Takes back the memory that was
  // lent to the owner: now, or when the owner's lineage has ended. In the second case, `on_end` is
  // then called once more.
  void end(const std::string& why);
  // Returns true if the owner is alive but had no room for the connection, which may be opened
  // again.
  bool turned_away() const noexcept { return refusal_ == Code::kOutOfMemory; }
  // Returns true after the owner's HELLO.
  bool greeted() const noexcept { return greeted_; }
  bool has_link(const std::shared_ptr<Receiver>& subscriber, std::uint32_t publisher) const;
  bool ended() const noexcept { return ended_; }
  // Returns true if no subscriber has a link over this connection, and no other request was ever
  // sent over it.
  bool idle();
  void send_retired(memory::SegmentId segment) { segments_->retire(segment); }
  const std::shared_ptr<PeerSession>& session() const noexcept { return session_; }

 private:
  struct Link {
    std::weak_ptr<Receiver> subscriber;
    std::weak_ptr<link::BorrowerLink> link;
  };
  struct Wanted {
    std::shared_ptr<Receiver> subscriber;
    std::shared_ptr<link::BorrowerLink> link;
  };

  void on_message(link::Channel::Received& received);
  void segment_came();
  void greet(link::Channel::Received& received);
  void know(link::Channel::Received& hello);
  void on(const link::Accepted& accepted, platform::Fd segment, platform::Fd room_notifier);
  void on(const link::Refused& refused);
  void on(const link::Ended& ended);
  void log(platform::LogLevel level, const link::BorrowerLink& link,
           std::initializer_list<std::string_view> text) noexcept;
  void lost(const std::shared_ptr<Receiver>& subscriber, const link::BorrowerLink& link);
  // Returns the subscriber and the link with this number; either is null if it is gone.
  Wanted link_named(std::uint32_t number) const;

  ParticipantContext& context_;
  const Id owner_;
  const OnEnd on_end_;
  const OnLost on_lost_;
  const memory::PeerAccount account_;
  memory::PeerCharge charge_;  // moves to peer_memory_
  Connection connection_;
  std::shared_ptr<link::PeerMemory> peer_memory_;
  std::shared_ptr<link::SegmentSender> segments_;  // sends this participant's segments to the owner
  std::shared_ptr<PeerSession> session_;
  bool greeted_ = false;
  std::optional<Code> refusal_;  // the owner's refusal of the connection
  bool ended_ = false;
  std::vector<Wanted> wanted_;  // until the owner's HELLO
  std::unordered_map<std::uint32_t, Link> links_;
  std::uint32_t next_link_ = 1;
  std::optional<Lineage> lineage_;  // the owner's, if it sent one
};

}  // namespace tensorbus::bus
