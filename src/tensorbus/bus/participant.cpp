#include "tensorbus/bus/participant.hpp"

#include <utility>
#include <vector>

#include "tensorbus/bus/participant/participant_core.hpp"
#include "tensorbus/link/lease/kept_lease.hpp"
#include "tensorbus/platform/fork/inherited.hpp"
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
  std::vector<std::weak_ptr<ParticipantCore>> participants TB_GUARDED_BY(mutex);
  std::uint32_t fork_generation = platform::fork_generation();
};

platform::Immortal<Registry> first_registry;

Registry* current_registry = &*first_registry;

Registry& registry() {
  // A child leaves the parent's registry behind: its mutex may be held in the parent.
  if (current_registry->fork_generation != platform::fork_generation())
    current_registry = new Registry;
  return *current_registry;
}

// Does not destroy the participant if the last handle goes in a forked child: it is the parent's.
struct LeaveToParent {
  void operator()(ParticipantCore* core) const {
    if (core->fork_generation() == platform::fork_generation()) delete core;
  }
};

std::shared_ptr<ParticipantCore> make_core(const ParticipantOptions& options) {
  return {new ParticipantCore(options), LeaveToParent()};
}

const ParticipantCore& of_this_process(const std::shared_ptr<ParticipantCore>& handle) {
  if (!handle) throw Error(Code::kClosed, "this participant was moved from");
  const ParticipantCore& core = *handle;
  if (core.fork_generation() != platform::fork_generation())
    throw Error(Code::kForked, "this participant was made before fork(): the child makes its own");
  return core;
}

}  // namespace

Participant::Participant(const ParticipantOptions& options)
    : core_(platform::with_memory_errors([&] { return make_core(options); })) {}

Participant Participant::shared(const ParticipantOptions& options) {
  return platform::with_memory_errors([&] {
    Registry& all = registry();
    const platform::MutexLock lock(all.mutex);
    const std::string path = bus::domain_path(options.domain);
    std::erase_if(all.participants, [](const auto& weak) { return weak.expired(); });
    // Compares their present paths: a domain may have moved.
    for (const auto& weak : all.participants)
      if (auto known = weak.lock(); known && known->domain().path() == path)
        return Participant(std::move(known));
    std::shared_ptr<ParticipantCore> core = make_core(options);
    all.participants.emplace_back(core);
    return Participant(std::move(core));
  });
}

const std::shared_ptr<ParticipantCore>& Participant::core() const {
  (void)of_this_process(core_);
  return core_;
}

Id Participant::id() const { return of_this_process(core_).id(); }

std::string Participant::domain_path() const { return of_this_process(core_).domain().path(); }

std::uint64_t Participant::domain_changes() const {
  return of_this_process(core_).domain_changes();
}

int Participant::domain_descriptor() const { return core()->domain_descriptor(); }
void Participant::clear_domain_descriptor() const { core()->clear_domain_descriptor(); }
int Participant::subscribers_descriptor() const { return core()->subscribers_descriptor(); }
std::vector<std::uint32_t> Participant::take_changed_publishers() const {
  return core()->take_changed_publishers();
}

namespace {

ArenaUse with_process(ArenaUse use) {
  const platform::ForkedChildren children = platform::forked_children();
  use.inherited_leases = link::KeptLease::count();
  use.forked_children = children.guards;
  use.unwatched_forks = children.unwatched;
  return use;
}

}  // namespace

ArenaUse Participant::arena() const { return with_process(of_this_process(core_).arena().stats()); }

ArenaUse Participant::arena(Device device) const {
  if (device.is_host()) return arena();
  const auto all = of_this_process(core_).device_memory().stats();
  const auto found = all.find(device.ordinal);
  if (found == all.end()) return {};
  return with_process(found->second);
}

}  // namespace tensorbus::bus
