#pragma once

#include <string>

#include "tensorbus/bus/participant/participant_core.hpp"
#include "tensorbus/bus/queue_client/queue_request.hpp"
#include "tensorbus/link/wire/queue_messages.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus::bus {

// What the host of a queue says of it (Reply: kOpen).
struct OpenedQueue {
  QueueAddress address;
  link::Reply told;
};
// Throws Error(kClosed) if it is gone, Error(kTimeout).
OpenedQueue open_queue(ParticipantCore& core, const QueueAddress& address,
                       const platform::StopCondition& stop);
// Waits for a queue of this name. One whose process is about to end does not count: another may be
// made. Throws Error(kTimeout) if none is made in time.
OpenedQueue open_named_queue(ParticipantCore& core, const std::string& name,
                             const platform::StopCondition& stop);

}  // namespace tensorbus::bus
