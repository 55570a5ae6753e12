#pragma once

#include <tensorbus/c/participant.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/internal/from_c.hpp>
#include <tensorbus/internal/tensors.hpp>
#include <tensorbus/values/device.hpp>
#include <tensorbus/values/id.hpp>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/stats.hpp>

namespace tensorbus::inline v0 {

class Participant;
namespace internal {
tb_participant* get(const Participant& participant);
}

// This process on one domain. A Participant is a handle: copies refer to the same participant,
// which ends with its last handle, publisher and subscriber. Publishers, subscribers, queues and
// shares take a participant as their last argument. By default they use the participant that the
// process shares:
//
//   const tensorbus::Participant lab({.domain = "lab", .budget_bytes = 1 << 30});
//   tensorbus::Publisher publisher("camera/image", {}, lab);
class Participant {
 public:
  // Makes a new participant. Throws Error(kPermission) if the domain's directory is unsafe.
  explicit Participant(const ParticipantOptions& options = {}) : Participant(options, false) {}
  // Returns the participant that this process shares on a domain. The first use makes it; later
  // uses ignore options other than `domain`. A forked child gets its own participant.
  static Participant shared(const ParticipantOptions& options = {}) {
    return Participant(options, true);
  }

  Id id() const;
  std::string domain_path() const;
  ArenaUse arena() const { return arena(Device::host()); }
  // Returns the use of its memory on a device; for a GPU, zeros before the first loan there.
  ArenaUse arena(Device device) const;

 private:
  friend tb_participant* internal::get(const Participant& participant);
  Participant(const ParticipantOptions& options, bool shared);

  std::shared_ptr<tb_participant> participant_;
};

namespace internal {

// Throws Error(kClosed) for a moved-from participant.
inline tb_participant* get(const Participant& participant) {
  return living(participant.participant_, "participant");
}

}  // namespace internal

inline Participant::Participant(const ParticipantOptions& options, bool shared) {
  tb_participant_options given = TB_PARTICIPANT_OPTIONS_INIT;
  given.shared = shared ? 1 : 0;
  given.domain = internal::c_text_or_null(options.domain, "the domain");
  given.budget_bytes = options.budget_bytes;
  given.cuda_budget_bytes = options.cuda_budget_bytes;
  given.warm_bytes = std::max<std::size_t>(options.warm_bytes, 1);  // 0 would mean the default in C
  given.segment_bytes = options.segment_bytes;
  participant_ = internal::created<internal::Owned<tb_participant, tb_participant_destroy>>(
      [&](tb_participant** made) { return tb_participant_create(&given, made); });
}

inline Id Participant::id() const {
  Id id;
  internal::require_done(tb_participant_id(internal::get(*this), id.bytes.data()));
  return id;
}

inline std::string Participant::domain_path() const {
  std::array<char, 4096> path{};  // PATH_MAX
  internal::require_done(tb_participant_domain(internal::get(*this), path.data(), path.size()));
  return path.data();
}

inline ArenaUse Participant::arena(Device device) const {
  tb_arena_use use = TB_ARENA_USE_INIT;
  internal::require_done(
      tb_participant_arena(internal::get(*this), internal::number_of(device), &use));
  return internal::from_c<ArenaUse>(use);
}

}  // namespace tensorbus::inline v0
