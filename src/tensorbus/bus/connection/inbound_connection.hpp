#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "tensorbus/bus/connection/connection.hpp"
#include "tensorbus/bus/event_loop/lineage.hpp"
#include "tensorbus/bus/publish/sender.hpp"
#include "tensorbus/bus/session/participant_context.hpp"
#include "tensorbus/bus/session/peer_session.hpp"
#include "tensorbus/link/wire/peer.hpp"

namespace tensorbus::bus {

// A connection that a borrower has opened, and its links to this participant's publishers. Used
// only on the event loop.
class InboundConnection {
 public:
  using FindPublisher = std::function<std::shared_ptr<Sender>(std::uint32_t number)>;
  using OnEnd = std::function<void(InboundConnection&, const std::string& why)>;

  // Throws Error(kPermission) if the peer belongs to another user, memory::PeerLimit if there is no
  // room for one more connection.
  InboundConnection(ParticipantContext& context, platform::Fd socket, FindPublisher find,
                    OnEnd on_end);

  // Returns true if this side has replied to the first message (HELLO, INSPECT or TRACE).
  bool greeted() const noexcept {
    return greeted_ || inspection_.has_value() || traced_ != Traced::kNot;
  }
  // Returns the time at which the connection was accepted.
  std::chrono::steady_clock::time_point since() const noexcept { return since_; }
  // Returns the limit that prevents the handling of the first message; empty if none does.
  const std::string& shortage() const noexcept { return connection_.shortage(); }
  // Refuses a peer whose first message has no reply, because there is no room for the connection.
  void turn_away(const std::string& why) noexcept;
  pid_t pid() const noexcept { return account_.pid(); }

  // Called when the borrower is gone. Takes all leases back: at once, or when its lineage has
  // ended, because until then its forked children may read the memory that it held.
  void hang_up(const std::string& why);
  // Takes all leases back, because this participant closes or the lineage has ended.
  void end();
  bool ended() const noexcept { return ended_; }
  const std::shared_ptr<PeerSession>& session() const noexcept { return session_; }
  // Notifies the subscribers whose publishers have closed, or have stopped their links, since the
  // last call.
  void notify_ended();
  void send_retired(memory::SegmentId segment);
  // Adds the leases that the borrower has on this participant's memory.
  void add_lent(LentReport& sum, std::uint64_t wall_ns) const;

 private:
  struct Link {
    std::shared_ptr<Sender> publisher;
    std::shared_ptr<link::OwnerLink> link;
    memory::PeerCharge charge;
    std::optional<memory::PeerCharge> notifier{};
    std::optional<memory::PeerCharge> room_listener{};
    enum class Notified : std::uint8_t { kNothing, kCutOff, kEnded } notified = Notified::kNothing;
  };

  void on_message(link::Channel::Received& received);
  void greet(link::Channel::Received& received);
  void inspect(link::Channel::Received& received);
  void trace(link::Channel::Received& received);
  void refuse_tracer(Code code, const std::string& why);
  void on(const link::Subscribe& asked, platform::Fd sender);
  void on(const link::Unsubscribe& left);
  void on(const link::Done& done);
  void on(const link::Event& event, platform::Fd notifier);
  using Links = std::unordered_map<std::uint32_t, Link>;
  void stop();
  bool stop_links();
  void end_link(Links::iterator link);
  link::PublishedRef issued(std::uint32_t link, std::uint64_t token) const;
  std::optional<memory::PeerCharge> charge_for_notifier() const;
  void refuse(std::uint32_t link, Code code, const std::string& text);
  void refuse(const link::Subscribe& asked, Code code, const std::string& text);

  ParticipantContext& context_;
  const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  const FindPublisher find_publisher_;
  const OnEnd on_end_;
  const memory::PeerAccount account_;
  memory::PeerCharge charge_;  // moves to peer_memory_
  Connection connection_;
  std::shared_ptr<link::SegmentSender> segments_;
  std::shared_ptr<link::PeerMemory> peer_memory_;  // the memory that the borrower lends
  std::shared_ptr<PeerSession> session_;
  std::optional<link::Peer> peer_;  // empty before HELLO
  bool greeted_ = false;            // HELLO was replied to
  // The charge for the report that INSPECT requested, until the peer hangs up.
  std::optional<memory::PeerCharge> inspection_;
  // Set if a tracer has opened the connection.
  enum class Traced : std::uint8_t { kNot, kRefused, kOn } traced_ = Traced::kNot;
  bool stopped_ = false;  // no more messages are read or sent
  bool ended_ = false;
  Links links_;
  std::optional<Lineage> lineage_;  // the borrower's, if it sent one
};

}  // namespace tensorbus::bus
