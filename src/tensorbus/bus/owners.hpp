#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tensorbus/bus/borrower_connection.hpp"
#include "tensorbus/bus/domain.hpp"
#include "tensorbus/bus/stale_files.hpp"
#include "tensorbus/bus/surroundings.hpp"

namespace tensorbus::bus {

// Who lends to this participant: the connections to them, and what is still mapped here of those
// that are gone. On the service thread.
class Owners {
 public:
  // A subscription of a publisher that goes on. Must not throw.
  using OnLost = std::function<void(const std::shared_ptr<SubscriberCore>&, const Id& owner,
                                    std::uint32_t publisher)>;
  // `look_again` is asked for when whoever wants a connection should try once more.
  Owners(Surroundings& surroundings, const Domain& domain, StaleFiles& stale_files,
         Service::Errand& look_again, OnLost on_lost);
  Owners(const Owners&) = delete;
  Owners& operator=(const Owners&) = delete;

  // The connection to a participant, made if need be. Null: it is dead, or there is none for now,
  // and `look_again` is asked for. Throws memory::PeerLimit.
  BorrowerConnection* connection_to(const Id& owner) { return find_or_connect(owner).connection; }
  // Hands in the exchange with it, now or later, or null if it is dead.
  void reach(const Id& owner, const Surroundings::OnReached& on_reached);

  // What is mapped here of a participant that has ended. Its own word alone: what came over
  // connections that we opened to its socket, and not of whoever says in HELLO that it is the same.
  std::vector<std::shared_ptr<link::Connected>> estate_of(const Id& owner);
  // Is a subscriber of ours joined to this publisher, or has something of it?
  bool has_link(const std::shared_ptr<SubscriberCore>& subscriber, const Id& owner,
                std::uint32_t publisher) const;

  void drop_idle();
  void tell_retired(std::uint32_t segment);
  // We are gone.
  void end();

 private:
  struct Found {
    BorrowerConnection* connection = nullptr;
    bool dead = false;  // else, without a connection: to be tried again in a while
  };
  Found find_or_connect(const Id& owner);
  BorrowerConnection* adopt(const Id& owner, platform::Fd socket);
  void forget(BorrowerConnection& connection, const std::string& why);
  void inherit(const Id& owner, const std::shared_ptr<link::Connected>& left);
  void drop_departed();

  Surroundings& surroundings_;
  const Domain& domain_;
  StaleFiles& stale_files_;
  Service::Errand& look_again_;
  Service::Errand& dropping_departed_;
  const OnLost on_lost_;
  std::map<Id, std::shared_ptr<BorrowerConnection>> owners_;
  std::vector<std::shared_ptr<BorrowerConnection>> departed_;  // that hung up
  std::multimap<Id, std::weak_ptr<link::Connected>> estates_;
};

}  // namespace tensorbus::bus
