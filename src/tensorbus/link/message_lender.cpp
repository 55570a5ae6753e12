#include "tensorbus/link/message_lender.hpp"

#include <utility>

#include "tensorbus/link/control.hpp"
#include "tensorbus/link/lease.hpp"
#include "tensorbus/platform/step.hpp"

namespace tensorbus::link {

MessageLender::MessageLender(std::shared_ptr<const Source> source,
                             std::shared_ptr<Connected> connected, memory::Grant grant,
                             std::shared_ptr<LentMemory> lent, std::uint64_t token)
    : Lender(std::move(source), std::move(connected), grant),
      lent_(std::move(lent)),
      return_(Channel::prepare(Return{token})) {}

void MessageLender::give_back(std::uint64_t token, std::uint64_t mark) noexcept {
  if (token == 0 || !connected()->channel) return;
  return_.set_last(mark);
  connected()->channel->send(std::move(return_));
  platform::step("return.sent");
}

}  // namespace tensorbus::link
