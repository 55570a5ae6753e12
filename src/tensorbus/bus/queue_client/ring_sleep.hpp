#pragma once

#include <chrono>
#include <optional>
#include <span>

#include "tensorbus/bus/event_loop/completion.hpp"
#include "tensorbus/bus/participant/participant_core.hpp"
#include "tensorbus/link/wire/queue_messages.hpp"

namespace tensorbus::bus {

// For a thread that waits for its GET of a queue of its own process: sleeps on the rings of the
// queue's producers, so that a putting producer wakes this thread and not the event loop. Returns
// when an item may have come, when one of `until` is done, or after `most`. Returns nothing,
// without a wait, if it cannot sleep on the rings: items come by message, the kernel is too old, or
// another thread has the turn.
std::optional<platform::FutexWait> sleep_on_rings(ParticipantCore& core,
                                                  const link::QueueName& queue,
                                                  std::span<CompletionState* const> until,
                                                  std::chrono::nanoseconds most);

}  // namespace tensorbus::bus
