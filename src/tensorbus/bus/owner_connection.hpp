#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "tensorbus/bus/conversation.hpp"
#include "tensorbus/bus/publisher_core.hpp"
#include "tensorbus/link/peer.hpp"

namespace tensorbus::bus {

// What both kinds of connection need of their participant. Outlives them.
struct Surroundings {
  Id self;
  Service& service;
  std::shared_ptr<memory::Arena> arena;
  std::shared_ptr<link::WakePage> wake_page;
};

// A borrower that has connected to us, and its links to our publishers. On the service thread only.
class OwnerConnection {
 public:
  using FindPublisher = std::function<std::shared_ptr<PublisherCore>(std::uint32_t number)>;
  using OnEnd = std::function<void(OwnerConnection&, const std::string& why)>;

  // Throws Error(kPermission) if the peer is another user's.
  OwnerConnection(Surroundings& surroundings, platform::Fd socket, FindPublisher find,
                  OnEnd on_end);

  // The borrower is gone, or we are: takes all leases back.
  void end();
  bool ended() const noexcept { return ended_; }
  // Tells who subscribed to a publisher that has closed since.
  void tell_ended();
  void tell_retired(std::uint32_t segment);

 private:
  struct Link {
    std::shared_ptr<PublisherCore> publisher;
    std::shared_ptr<link::OwnerLink> link;
    bool told_ended = false;
  };

  void on_message(link::Channel::Received& received);
  void greet(link::Channel::Received& received);
  void subscribe(link::Channel::Received& received);
  void refuse(std::uint32_t link, Code code, const std::string& text);

  Surroundings& surroundings_;
  const FindPublisher find_publisher_;
  const OnEnd on_end_;
  Conversation conversation_;
  std::shared_ptr<link::SegmentSender> segments_;
  std::optional<link::Peer> peer_;  // empty until its HELLO came
  bool greeted_ = false;            // and was answered
  bool ended_ = false;
  std::unordered_map<std::uint32_t, Link> links_;
};

}  // namespace tensorbus::bus
