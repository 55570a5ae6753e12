#pragma once

#include <functional>
#include <memory>

#include "tensorbus/bus/participant/participant_core.hpp"
#include "tensorbus/bus/session/peer_session.hpp"
#include "tensorbus/link/wire/queue_messages.hpp"

namespace tensorbus::bus {

struct QueueAddress {
  Id host;
  link::QueueName queue;
  bool operator==(const QueueAddress&) const = default;
};

// A request to the host of a queue. On the event loop only.
struct QueueRequest {
  std::shared_ptr<PeerSession> host;  // null: not reached yet
  std::uint32_t request = 0;
  bool cancelled = false;
};
using QueueRequestRef = std::shared_ptr<QueueRequest>;

// Calls `start` on the event loop to send the request; it returns the request's number. Calls
// `on_gone` if the host cannot be reached. Any thread.
using StartRequest = std::function<std::uint32_t(
    ParticipantContext&, const std::shared_ptr<PeerSession>& host, const QueueRequestRef& asked)>;
QueueRequestRef ask_host(ParticipantCore& core, const Id& host, StartRequest start,
                         std::function<void(const Error&)> on_gone);
// `read`: of a get whose item was read.
void cancel_request(ParticipantCore& core, const QueueRequestRef& request, bool read = false);

}  // namespace tensorbus::bus
