#pragma once

#include <optional>
#include <string>

#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/bus/queue_client/queue_request.hpp"
#include "tensorbus/link/wire/queue_messages.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus::bus {

// A queue, and the settings that its server has sent.
struct OpenedQueue {
  QueueAddress address;
  link::QueueSettings settings;
};
// Throws Error(kClosed) if the queue is gone, Error(kTimeout).
OpenedQueue open_queue(ParticipantContext& participant, const QueueAddress& address,
                       const platform::StopCondition& stop);
// Waits for a queue of this name. Ignores a queue that is closed, or whose process ends: another
// queue of this name may be made. Also ignores `ended`, a queue that was shut down. Throws
// Error(kTimeout) if no queue is made in time.
OpenedQueue open_named_queue(ParticipantContext& participant, const Domain& domain,
                             const std::string& name, const platform::StopCondition& stop,
                             const std::optional<QueueAddress>& ended = {});

}  // namespace tensorbus::bus
