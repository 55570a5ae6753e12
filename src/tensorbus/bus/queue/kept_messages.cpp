#include "tensorbus/bus/queue/kept_messages.hpp"

#include <utility>

#include "tensorbus/bus/queue/reoffer.hpp"
#include "tensorbus/bus/session/acquire_leases.hpp"
#include "tensorbus/platform/limits.hpp"

namespace tensorbus::bus {

void KeptMessages::on_keep(const std::shared_ptr<PeerSession>& from, const link::Keep& asked) {
  if ((asked.share & Shares::kKept) == 0)
    throw Error(Code::kProtocol, "KEEP.share: " + std::to_string(asked.share));
  if (asked.drop == 0) return keep(from, asked);
  if (collecting_.erase(asked.share) == 0) context_.shares.drop({asked.share, asked.key});
}

void KeptMessages::keep(const std::shared_ptr<PeerSession>& from, const link::Keep& asked) {
  const memory::Grant grant = link::grant_of(asked.writable, "KEEP.writable");
  const Shares::Name name{asked.share, asked.key};
  collecting_.insert(name.number);
  acquire_leases(context_, from, asked.lent, grant,
                 {[this, name, grant, carrier = asked.carrier](const LentRef& held) {
                    if (!collecting_.contains(name.number)) return;  // dropped in the meantime
                    platform::with_memory_errors([&] {
                      const Reoffer named = reoffer(context_, held, grant);
                      context_.shares.keep(name, {named.entry, named.issued, grant}, carrier);
                    });
                    collecting_.erase(name.number);
                  },
                  [this, name](const Error&) { collecting_.erase(name.number); }});
}

}  // namespace tensorbus::bus
