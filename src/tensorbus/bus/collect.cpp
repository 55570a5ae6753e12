#include "tensorbus/bus/collect.hpp"

#include <new>
#include <utility>

#include "tensorbus/bus/claiming.hpp"

namespace tensorbus::bus {
namespace {

template <typename Work>
void guarded(const Receiver& receiver, Work work) {
  try {
    work();
  } catch (const Error& error) {
    receiver.on_error(error);
  } catch (const std::bad_alloc&) {
    receiver.on_error(Error(Code::kOutOfMemory, "no memory for the books of a sample"));
  }
}

// Where nothing is the sender's own, its lease was for the descriptor, which is copied.
void hand_in(Surroundings& surroundings, const HeldRef& held, memory::Grant grant,
             const Receiver& receiver) {
  if (!held->is_of_sender()) held->let_go_of_sender(grant, surroundings.lent);
  receiver.on_held(held);
}

}  // namespace

// The sender's lease is held until those of the owners are there (protocol.md, invariant 5).
void collect(Surroundings& surroundings, const std::shared_ptr<Exchange>& from,
             const link::Lent& lent, memory::Grant grant, Receiver receiver) noexcept {
  guarded(receiver, [&] {
    const auto held = std::make_shared<HeldSample>(*from, lent, grant, surroundings.lent);
    if (held->descriptor.owners.empty()) return hand_in(surroundings, held, grant, receiver);
    Claiming::start(surroundings, held->descriptor, {from, 0, lent.token}, grant,
                    [&surroundings, held, grant, receiver](std::variant<Claimed, Error> claimed) {
                      guarded(receiver, [&] {
                        if (const auto* error = std::get_if<Error>(&claimed)) throw *error;
                        held->claimed = std::move(std::get<Claimed>(claimed));
                        hand_in(surroundings, held, grant, receiver);
                      });
                    });
  });
}

}  // namespace tensorbus::bus
