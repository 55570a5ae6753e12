#include "tensorbus/bus/queue_client/queue_request.hpp"

#include <utility>

namespace tensorbus::bus {

QueueRequestRef ask_server(ParticipantContext& participant, const Id& server,
                           std::chrono::nanoseconds patience, StartRequest start,
                           PeerSession::OnAnswer on_answer) {
  auto asked = std::make_shared<QueueRequest>();
  // A request to this process must not overtake messages that other processes sent before.
  const bool after_messages = server == participant.self;
  participant.run_or_post(
      [asked, server, patience, start = std::move(start),
       on_answer = std::move(on_answer)](ParticipantContext& context) {
        const auto send = [&context, asked, start](const std::shared_ptr<PeerSession>& reached,
                                                   PeerSession::OnAnswer then) {
          if (asked->cancelled) {
            PeerSession::Answer not_sent = link::Reply{.refused = link::Reply::kTimedOut};
            return then(not_sent);
          }
          asked->server = reached;
          asked->request = start(context, reached, asked, std::move(then));
        };
        asked->sending = PatientRequest::start(context, server, patience, send, on_answer,
                                               "the queue's process is gone");
      },
      after_messages);
  return asked;
}

void cancel_request(ParticipantContext& participant, const QueueRequestRef& request, bool read) {
  participant.run_or_post([request, read](ParticipantContext&) {
    request->cancelled = true;
    if (const auto sending = request->sending.lock()) sending->give_up();
    if (request->server && request->request != 0) request->server->cancel(request->request, read);
  });
}

}  // namespace tensorbus::bus
