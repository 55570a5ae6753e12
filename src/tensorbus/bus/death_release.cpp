#include "tensorbus/bus/death_release.hpp"

#include <utility>

namespace tensorbus::bus {
namespace {

struct Waiting {
  platform::Fd pidfd;
  std::weak_ptr<link::Connected> peer;
  Service::Tag tag = 0;
};

}  // namespace

void release_when_dead(Service& service, const std::shared_ptr<link::Connected>& peer,
                       const platform::Fd& pidfd) {
  if (peer->cuda.timeline() == nullptr) return;
  if (!pidfd) return peer->cuda.owner_died();
  const auto waiting = std::make_shared<Waiting>(Waiting{platform::duplicate(pidfd.get()), peer});
  waiting->tag = service.watch(waiting->pidfd.get(), [&service, waiting] {
    if (const auto dead = waiting->peer.lock()) dead->cuda.owner_died();
    service.unwatch(waiting->tag, waiting->pidfd.get());
  });
}

}  // namespace tensorbus::bus
