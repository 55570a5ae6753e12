#pragma once

#include <memory>
#include <string>
#include <tensorbus/values/device.hpp>
#include <tensorbus/values/id.hpp>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/stats.hpp>
#include <vector>

#include "tensorbus/platform/export.hpp"

namespace tensorbus::bus {

class ParticipantCore;

// A handle to this process on one domain. Copies refer to the same participant, which lives until
// its last handle, publisher and subscriber is gone. Thread-safe.
class TENSORBUS_API Participant {
 public:
  // Makes a new participant. Throws Error(kPermission) for an unsafe domain directory.
  explicit Participant(const ParticipantOptions& options = {});
  // Returns the participant that this process shares on a domain, made on first use. A forked child
  // gets its own. Options other than `domain` apply on first use only.
  static Participant shared(const ParticipantOptions& options = {});

  Id id() const;
  std::string domain_path() const;
  // Grows when files of the domain may have been added or removed.
  std::uint64_t domain_changes() const;
  // For bridges: see ParticipantCore.
  int domain_descriptor() const;
  void clear_domain_descriptor() const;
  int subscribers_descriptor() const;
  std::vector<std::uint32_t> take_changed_publishers() const;
  ArenaUse arena() const;
  // Does the same for its memory on a GPU; all zero before the first loan there.
  ArenaUse arena(Device device) const;

  // Throws Error(kForked) in a child of the process that made it.
  const std::shared_ptr<ParticipantCore>& core() const;

 private:
  explicit Participant(std::shared_ptr<ParticipantCore> core) : core_(std::move(core)) {}

  std::shared_ptr<ParticipantCore> core_;
};

}  // namespace tensorbus::bus
