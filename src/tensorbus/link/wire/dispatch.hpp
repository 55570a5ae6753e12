#pragma once

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "tensorbus/link/wire/channel.hpp"
#include "tensorbus/link/wire/control_messages.hpp"

// Decodes received messages and passes them to their handlers.
namespace tensorbus::link {

namespace internal {

template <typename Row, typename Handler>
void decode_and_hand_in(Channel::Received& received, Handler& handler) {
  auto message = received.as<typename Row::Message>();
  received.require_fds(Row::kRow.min_fds, Row::kRow.max_fds);
  static_assert(Row::kRow.max_fds <= 2);
  const auto fd = [&received](std::size_t i) {
    const std::size_t count = received.datagram.fds.size();
    return i < count ? received.take_fd(i, count) : platform::Fd();
  };
  if constexpr (Row::kRow.max_fds == 0)
    handler(std::move(message));
  else if constexpr (Row::kRow.max_fds == 1)
    handler(std::move(message), fd(0));
  else
    handler(std::move(message), fd(0), fd(1));
}

// Returns the decoders by message number; null for messages that `kBy` does not take.
template <TakenBy kBy, typename Handler>
constexpr auto make_jump_table() {
  std::array<void (*)(Channel::Received&, Handler&), kControlTypes> table{};
  for_each_control_message([&]<typename Row>(Row) {
    if constexpr (Row::kRow.taken_by == kBy)
      table.at(static_cast<std::size_t>(Row::Message::kType)) = &decode_and_hand_in<Row, Handler>;
  });
  return table;
}

}  // namespace internal

// Decodes a message that `kBy` takes, and calls `handler` with it and, for a type that may have
// descriptors, with these (empty if none came). `handler` must accept all types of `kBy`. Returns
// false for other messages. Throws Error(kProtocol) for a wrong body or number of descriptors.
template <TakenBy kBy, typename Handler>
bool dispatch(Channel::Received& received, Handler&& handler) {
  static constexpr auto kTable = internal::make_jump_table<kBy, std::remove_reference_t<Handler>>();
  const auto number = static_cast<std::size_t>(received.header.type);
  if (number >= kTable.size() || kTable[number] == nullptr) return false;
  kTable[number](received, handler);
  return true;
}

}  // namespace tensorbus::link
