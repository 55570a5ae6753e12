#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "tensorbus/bus/session/participant_context.hpp"
#include "tensorbus/bus/session/patient_request.hpp"
#include "tensorbus/link/wire/queue_messages.hpp"

namespace tensorbus::bus {

struct QueueAddress {
  Id server;
  link::QueueName queue;
  bool operator==(const QueueAddress&) const = default;
};

// A request to the server of a queue. On the event loop only.
struct QueueRequest {
  std::weak_ptr<PatientRequest> sending;  // until the reply
  std::shared_ptr<PeerSession> server;    // null: not reached yet
  std::uint32_t request = 0;
  bool cancelled = false;
};
using QueueRequestRef = std::shared_ptr<QueueRequest>;

// Calls `start` on the event loop. `start` sends the request with the `on_answer` that it gets, and
// returns the request's number. It may be called again (patient_request.hpp). ask_server() calls
// its own `on_answer` with the reply. Any thread.
using StartRequest =
    std::function<std::uint32_t(ParticipantContext&, const std::shared_ptr<PeerSession>& server,
                                const QueueRequestRef& asked, PeerSession::OnAnswer on_answer)>;
QueueRequestRef ask_server(ParticipantContext& participant, const Id& server,
                           std::chrono::nanoseconds patience, StartRequest start,
                           PeerSession::OnAnswer on_answer);
// `read`: the request is a get whose item was read.
void cancel_request(ParticipantContext& participant, const QueueRequestRef& request,
                    bool read = false);

}  // namespace tensorbus::bus
