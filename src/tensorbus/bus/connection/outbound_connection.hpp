#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tensorbus/bus/connection/connection.hpp"
#include "tensorbus/bus/event_loop/lineage.hpp"
#include "tensorbus/bus/session/participant_context.hpp"
#include "tensorbus/bus/session/peer_session.hpp"
#include "tensorbus/bus/subscribe/subscriber_core.hpp"
#include "tensorbus/link/ring/borrower_link.hpp"
#include "tensorbus/link/wire/peer.hpp"

namespace tensorbus::bus {

// Our connection to an owner, and our subscribers' links over it. On the event loop only; what
// leases need of it outlives it (link::PeerMemory).
class OutboundConnection {
 public:
  using OnEnd = std::function<void(OutboundConnection&, const std::string& why)>;
  // A subscription has ended, but not the publisher: the owner hung up, or has no room for it now.
  // Must not throw.
  using OnLost =
      std::function<void(const std::shared_ptr<SubscriberCore>&, std::uint32_t publisher)>;

  // Throws Error(kPermission) if the peer is another user's, memory::PeerLimit if there is no room
  // for one more connection.
  OutboundConnection(ParticipantContext& context, const Id& owner, platform::Fd socket,
                     OnEnd on_end, OnLost on_lost = {});

  ~OutboundConnection() { conversation_.close(); }  // before the pidfd that it watches goes

  const Id& owner() const noexcept { return owner_; }

  void subscribe(const std::shared_ptr<SubscriberCore>& subscriber, std::uint32_t publisher);
  // The owner is gone, or we are. What we lent it comes back at once, or when its lineage has
  // ended: then `on_end` is called once more.
  void end(const std::string& why);
  // The owner lives, and had no room for us, or we none for it: end() says that it may be asked
  // again.
  bool turned_away() const noexcept { return turned_away_; }
  bool has_link(const std::shared_ptr<SubscriberCore>& subscriber, std::uint32_t publisher) const;
  bool ended() const noexcept { return ended_; }
  // Nobody here has a link any more, and nothing was ever asked but for links.
  bool idle();
  void tell_retired(memory::SegmentId segment) { segments_->retire(segment); }
  const std::shared_ptr<PeerSession>& exchange() const noexcept { return exchange_; }

 private:
  struct Link {
    std::weak_ptr<SubscriberCore> subscriber;
    std::weak_ptr<link::BorrowerLink> link;
  };
  struct Wanted {
    std::shared_ptr<SubscriberCore> subscriber;
    std::shared_ptr<link::BorrowerLink> link;
  };

  void on_message(link::Channel::Received& received);
  void segment_came();
  void greet(link::Channel::Received& received);
  void know(link::Channel::Received& hello);
  void on(const link::Accepted& accepted, platform::Fd segment);
  void on(const link::Refused& refused);
  void on(const link::Ended& ended);
  void lost(const std::shared_ptr<SubscriberCore>& subscriber, const link::BorrowerLink& link);
  // Both ends of a link that the owner names; either may be gone here.
  Wanted link_named(std::uint32_t number) const;

  ParticipantContext& context_;
  const Id owner_;
  const OnEnd on_end_;
  const OnLost on_lost_;
  const memory::PeerAccount account_;
  memory::PeerCharge charge_;  // until connected_ has it
  Connection conversation_;
  std::shared_ptr<link::PeerMemory> connected_;
  std::shared_ptr<link::SegmentSender> segments_;  // ours, on the way to the owner
  std::shared_ptr<PeerSession> exchange_;
  bool greeted_ = false;
  bool turned_away_ = false;
  bool ended_ = false;
  std::vector<Wanted> wanted_;  // until the owner's HELLO came
  std::unordered_map<std::uint32_t, Link> links_;
  std::uint32_t next_link_ = 1;
  std::optional<Lineage> lineage_;  // the owner's, if it told
};

}  // namespace tensorbus::bus
