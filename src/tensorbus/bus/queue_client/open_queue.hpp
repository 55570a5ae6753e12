#pragma once

#include <string>

#include "tensorbus/bus/participant/participant_core.hpp"
#include "tensorbus/bus/queue_client/queue_request.hpp"
#include "tensorbus/link/wire/queue_messages.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus::bus {

// A queue, and its settings as its server has them.
struct OpenedQueue {
  QueueAddress address;
  link::QueueSettings settings;
};
// Throws Error(kClosed) if the queue is gone, Error(kTimeout).
OpenedQueue open_queue(ParticipantCore& core, const QueueAddress& address,
                       const platform::StopCondition& stop);
// Waits for a queue of this name. Ignores a queue whose process is about to end: another queue may
// be made. Throws Error(kTimeout) if no queue is made in time.
OpenedQueue open_named_queue(ParticipantCore& core, const std::string& name,
                             const platform::StopCondition& stop);

}  // namespace tensorbus::bus
