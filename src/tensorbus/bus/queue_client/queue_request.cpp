#include "tensorbus/bus/queue_client/queue_request.hpp"

#include <utility>

namespace tensorbus::bus {

QueueRequestRef ask_host(ParticipantCore& core, const Id& host, StartRequest start,
                         std::function<void(const Error&)> on_gone) {
  auto asked = std::make_shared<QueueRequest>();
  // A request to ourselves overtakes nothing that other processes sent before it was made.
  const bool after_messages = host == core.id();
  core.run_or_post(
      [asked, host, start = std::move(start),
       on_gone = std::move(on_gone)](ParticipantContext& context) {
        context.reach(
            host, [&context, asked, start, on_gone](const std::shared_ptr<PeerSession>& reached) {
              if (asked->cancelled) return;
              if (!reached)
                return on_gone(Error(Code::kClosed, "the process that has the queue is gone"));
              asked->host = reached;
              asked->request = start(context, reached, asked);
            });
      },
      after_messages);
  return asked;
}

void cancel_request(ParticipantCore& core, const QueueRequestRef& request, bool read) {
  core.run_or_post([request, read](ParticipantContext&) {
    request->cancelled = true;
    if (request->host && request->request != 0) request->host->cancel(request->request, read);
  });
}

}  // namespace tensorbus::bus
