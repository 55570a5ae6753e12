// Connections for which the other process has no room (docs/internals/protocol.md, "No room for a
// connection").

#include <atomic>
#include <thread>

#include "tests/fakes/fake_session.hpp"

namespace tensorbus::bus {
namespace {

using namespace testing;

class TurnedAway : public FakeLender {
 protected:
  void turns_away() { link::turn_away(peer->channel.fd(), "short of everything"); }
  void lends_rightly() {
    write_pattern({reinterpret_cast<std::uint64_t*>(mapping.data()), 64}, kSeed);
    send_segment();
    lend(one_tensor(0, 64));
  }
};

TEST_F(TurnedAway, a_request_is_sent_again_when_there_is_room) {
  begins_to_attach(kLong);
  for (int i = 0; i < 3; ++i) {
    is_connected();
    turns_away();
  }
  is_connected();
  greets();
  lends_rightly();
  EXPECT_EQ(result(), std::nullopt);
  EXPECT_EQ(seed_of(*sample), kSeed);
}

TEST_F(TurnedAway, a_request_is_sent_again_if_the_other_hung_up_before_it_answered) {
  begins_to_attach(kLong);
  is_connected();
  is_connected();
  greets();
  lends_rightly();
  EXPECT_EQ(result(), std::nullopt);
}

TEST_F(TurnedAway, a_call_says_at_its_end_what_was_short) {
  begins_to_attach(1s);
  std::atomic<bool> over = false;
  std::thread refuses([&] {
    while (!over) {
      if (platform::Fd socket = platform::accept_from(listener.get()))
        link::turn_away(socket.get(), "short of everything");
    }
  });
  EXPECT_EQ(result(), Code::kOutOfMemory);
  over = true;
  refuses.join();
}

TEST_F(TurnedAway, a_call_says_what_was_short_also_if_refusals_are_slow) {
  begins_to_attach(4s);
  is_connected();
  std::this_thread::sleep_for(2200ms);  // a second attempt would end after the call
  turns_away();
  EXPECT_EQ(result(), Code::kOutOfMemory);
}

TEST_F(TurnedAway, a_request_of_one_that_is_dead_then_is_closed) {
  begins_to_attach(kLong);
  is_connected();
  turns_away();
  listener.reset();
  peer.reset();
  EXPECT_EQ(result(), Code::kClosed);
}

// It may have handled the request before it hung up.
TEST_F(TurnedAway, a_request_of_one_that_hung_up_after_its_hello_is_closed) {
  is_requested();
  peer.reset();
  EXPECT_EQ(result(), Code::kClosed);
}

TEST_F(TurnedAway, another_version_is_no_end) {
  begins_to_attach(kLong);
  is_connected();
  peer->channel.send(
      link::Refused{0, static_cast<std::uint32_t>(Code::kVersionMismatch), "another version"});
  EXPECT_EQ(result(), Code::kVersionMismatch);
}

}  // namespace
}  // namespace tensorbus::bus
