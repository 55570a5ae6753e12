#pragma once

#include <cstdint>
#include <memory>
#include <set>

#include "tensorbus/bus/session/participant_context.hpp"
#include "tensorbus/bus/session/peer_session.hpp"
#include "tensorbus/link/wire/lease_messages.hpp"

namespace tensorbus::bus {

// Keeps shares of other participants, which may end before any process attaches
// (docs/internals/protocol.md, section 6, "Kept messages"). On the event loop only.
class KeptMessages {
 public:
  explicit KeptMessages(ParticipantContext& context) : context_(context) {}

  // Keeps a share, or drops it. Sends no reply: if there is no memory for the share, it is not
  // kept. Throws Error(kProtocol).
  void on_keep(const std::shared_ptr<PeerSession>& from, const link::Keep& asked);

 private:
  void keep(const std::shared_ptr<PeerSession>& from, const link::Keep& asked);

  ParticipantContext& context_;
  std::set<std::uint64_t> collecting_;  // shares whose leases are being acquired
};

}  // namespace tensorbus::bus
