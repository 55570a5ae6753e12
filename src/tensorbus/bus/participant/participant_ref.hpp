#pragma once

#include <memory>
#include <tensorbus/values/options.hpp>

#include "tensorbus/platform/export.hpp"

namespace tensorbus::bus {

class Participant;

// Refers to this process on one domain. The participant exists until the last object that refers to
// it is destroyed, for example a publisher or a queue.
using ParticipantRef = std::shared_ptr<Participant>;

// Makes a new participant. Throws Error(kPermission) for an unsafe domain directory.
TENSORBUS_API ParticipantRef make_participant(const ParticipantOptions& options = {});
// Returns the participant that this process shares on a domain, made on first use. A forked child
// gets a participant of its own. Options other than `domain` apply on first use only.
TENSORBUS_API ParticipantRef shared_participant(const ParticipantOptions& options = {});
// Returns the participant. Throws Error(kForked) in a forked child of the process that made it.
// Called where a program passes a participant: in the C interface and in the Python extension.
TENSORBUS_API const ParticipantRef& of_this_process(const ParticipantRef& participant);
const ParticipantRef& of_this_process(ParticipantRef&& temporary) = delete;

}  // namespace tensorbus::bus
