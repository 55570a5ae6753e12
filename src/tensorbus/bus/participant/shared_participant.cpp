#include <utility>
#include <vector>

#include "tensorbus/bus/participant/participant.hpp"
#include "tensorbus/platform/fork_guard.hpp"
#include "tensorbus/platform/immortal.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::bus {
namespace {

// The shared participants of this process, one for each domain path. Never destroyed: other static
// objects may use it while the process ends.
struct Registry {
  platform::Mutex mutex;
  std::vector<std::weak_ptr<Participant>> participants TB_GUARDED_BY(mutex);
  std::uint32_t fork_generation = platform::fork_generation();
};

platform::Immortal<Registry> first_registry;

Registry* current_registry = &*first_registry;

Registry& registry() {
  // A forked child makes its own registry: another thread of the parent may have held the mutex at
  // the fork.
  if (current_registry->fork_generation != platform::fork_generation())
    current_registry = new Registry;
  return *current_registry;
}

// Destroys the participant with its last reference, except in a forked child: it belongs to the
// parent.
struct LeaveToParent {
  void operator()(Participant* participant) const {
    if (participant->fork_generation() == platform::fork_generation()) delete participant;
  }
};

ParticipantRef make(const ParticipantOptions& options) {
  return {new Participant(options), LeaveToParent()};
}

}  // namespace

ParticipantRef make_participant(const ParticipantOptions& options) {
  return platform::with_memory_errors([&] { return make(options); });
}

ParticipantRef shared_participant(const ParticipantOptions& options) {
  return platform::with_memory_errors([&] {
    Registry& all = registry();
    const platform::MutexLock lock(all.mutex);
    const std::string path = domain_path(options.domain);
    std::erase_if(all.participants, [](const auto& weak) { return weak.expired(); });
    // Compares the current paths, because a domain may have moved.
    for (const auto& weak : all.participants)
      if (auto known = weak.lock(); known && known->domain().path() == path) return known;
    ParticipantRef participant = make(options);
    all.participants.emplace_back(participant);
    return participant;
  });
}

const ParticipantRef& of_this_process(const ParticipantRef& participant) {
  if (!participant) throw Error(Code::kClosed, "this participant was moved from");
  if (participant->fork_generation() != platform::fork_generation())
    throw Error(Code::kForked,
                "this participant was made before fork(): make a new one in the child");
  return participant;
}

}  // namespace tensorbus::bus
