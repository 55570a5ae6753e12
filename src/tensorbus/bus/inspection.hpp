#pragma once

#include <string>
#include <tensorbus/values/inspected.hpp>

#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus::bus {

// Inspects all participants of a domain at once, and waits for all replies together, until `stop`.
// A participant that did not reply is listed with the reason (ParticipantReport::error); a
// participant that has ended is not listed. The inspecting process needs no participant. A domain
// that does not exist is not made; its list is empty. `domain` is as for Participant. Throws
// Error(kPermission) for an unsafe directory.
[[gnu::cold]] TENSORBUS_API Inspection inspect(const std::string& domain,
                                               const platform::StopCondition& stop);

}  // namespace tensorbus::bus
