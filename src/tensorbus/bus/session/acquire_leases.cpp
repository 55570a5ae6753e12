#include "tensorbus/bus/session/acquire_leases.hpp"

#include <new>
#include <utility>

#include "tensorbus/bus/session/lease_acquisition.hpp"

namespace tensorbus::bus {
namespace {

template <typename Work>
void guarded(const LentCallbacks& callbacks, Work work) {
  try {
    work();
  } catch (const Error& error) {
    callbacks.on_error(error);
  } catch (const std::bad_alloc&) {
    callbacks.on_error(Error(Code::kOutOfMemory, "out of memory for internal bookkeeping"));
  }
}

// If the sender owns no part of the sample, returns its lease: the descriptor was copied.
void hand_in(ParticipantContext& context, const LentRef& held, memory::Grant grant,
             const LentCallbacks& callbacks) {
  if (!held->is_of_sender()) held->let_go_of_sender(grant, context.lent);
  callbacks.on_held(held);
}

}  // namespace

// Holds the sender's lease until the owners' leases have come (docs/internals/protocol.md,
// invariant 5).
std::vector<Id> acquire_leases(ParticipantContext& context,
                               const std::shared_ptr<PeerSession>& from, const link::Lent& lent,
                               memory::Grant grant, LentCallbacks callbacks) noexcept {
  std::vector<Id> asked;
  guarded(callbacks, [&] {
    const auto held = std::make_shared<LentSample>(*from, lent, grant, context.lent);
    if (held->descriptor.owners.empty()) return hand_in(context, held, grant, callbacks);
    asked = held->descriptor.owners;
    LeaseAcquisition::start(
        context, held->descriptor, {from, 0, lent.token}, grant,
        [&context, held, grant, callbacks](std::variant<AcquiredLeases, Error> acquired) {
          guarded(callbacks, [&] {
            if (const auto* error = std::get_if<Error>(&acquired)) throw *error;
            held->acquired = std::move(std::get<AcquiredLeases>(acquired));
            hand_in(context, held, grant, callbacks);
          });
        });
  });
  return asked;
}

}  // namespace tensorbus::bus
