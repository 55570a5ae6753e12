#pragma once

#include <chrono>
#include <optional>
#include <span>

#include "tensorbus/bus/event_loop/completion.hpp"
#include "tensorbus/bus/session/participant_context.hpp"
#include "tensorbus/link/wire/queue_messages.hpp"

namespace tensorbus::bus {

// Called by a thread that waits for its GET of a queue of its own process. Sleeps on the rings of
// the queue's producers, so that a producer's put wakes this thread and not the event loop. Returns
// when an item may have come, when one of `until` is done, or after `most`. Returns an empty value,
// without a wait, if it cannot sleep on the rings: items come by message, the kernel is too old, or
// another thread has the turn.
std::optional<platform::FutexWait> sleep_on_rings(ParticipantContext& participant,
                                                  const link::QueueName& queue,
                                                  std::span<CompletionState* const> until,
                                                  std::chrono::nanoseconds most);

}  // namespace tensorbus::bus
