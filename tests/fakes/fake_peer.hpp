#pragma once

// For tests: a peer that sends the control messages itself, correct or wrong ones.

#include <poll.h>

#include <chrono>
#include <optional>
#include <utility>

#include "tensorbus/link/wire/control_messages.hpp"
#include "tensorbus/link/wire/peer.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus::bus::testing {

// One end of a connection, controlled by the test.
class FakePeer {
 public:
  explicit FakePeer(platform::Fd socket) : channel(std::move(socket), [](bool) {}) {}

  void say_hello(const Id& as = Id::random()) { link::send_hello(channel, as, page); }
  // Returns the next message; nothing if the other side has hung up instead.
  std::optional<link::ControlType> next() {
    pollfd ready{channel.fd(), POLLIN, 0};
    const std::chrono::milliseconds limit(tensorbus::testing::kLong);
    if (!channel.has_rest() && ::poll(&ready, 1, static_cast<int>(limit.count())) != 1)
      return std::nullopt;
    if (channel.receive(received) != link::Channel::State::kMessage) return std::nullopt;
    return received.header.type;
  }

  link::WakePage page;
  link::Channel channel;
  link::Channel::Received received;
};

}  // namespace tensorbus::bus::testing
