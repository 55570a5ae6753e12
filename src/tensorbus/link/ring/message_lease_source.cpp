#include "tensorbus/link/ring/message_lease_source.hpp"

#include <utility>

#include "tensorbus/link/lease/lease.hpp"
#include "tensorbus/link/wire/lease_messages.hpp"
#include "tensorbus/platform/kill_point.hpp"

namespace tensorbus::link {

MessageLeaseSource::MessageLeaseSource(std::shared_ptr<const Source> source,
                                       std::shared_ptr<PeerMemory> peer_memory, memory::Grant grant,
                                       std::shared_ptr<LeaseIndex> lent, std::uint64_t token)
    : LeaseSource(std::move(source), std::move(peer_memory), grant),
      lent_(std::move(lent)),
      return_(Channel::prepare(Return{token})) {}

void MessageLeaseSource::give_back(std::uint64_t token, std::uint64_t mark) noexcept {
  if (token == 0 || !peer_memory()->channel) return;
  return_.set_last(mark);
  if (delayed_)
    delayed_->send(peer_memory()->channel, std::move(return_));
  else
    peer_memory()->channel->send(std::move(return_));
  platform::kill_point("return.sent");
}

}  // namespace tensorbus::link
