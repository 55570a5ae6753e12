#pragma once

#include <string>
#include <tensorbus/inspected.hpp>

#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus {

// Asks all participants of a domain what they have, all at once, and waits for all together until
// `stop`. A participant that did not answer is listed with the reason (ParticipantReport::error);
// one that has ended is not listed. The process that asks needs no participant, and a domain that
// does not exist is not made: then nobody is listed. `domain` is as for Participant. Throws
// Error(kPermission) for an unsafe directory.
[[gnu::cold]] TENSORBUS_API Inspection inspect(const std::string& domain,
                                               const platform::StopCondition& stop);

}  // namespace tensorbus
