#include "tensorbus/link/ring/pool_holds.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/error.hpp"
#include "tests/fakes/test_sockets.hpp"

namespace tensorbus::link {
namespace {

class Holds : public ::testing::Test {
 protected:
  static bool refused(PoolHolds& holds, memory::SegmentId segment) {
    try {
      (void)holds.take(segment);
      return false;
    } catch (const Error& error) {
      return error.code() == Code::kProtocol;
    }
  }
  // Within ten seconds.
  bool let_go() const {
    for (const platform::Deadline deadline(std::chrono::seconds(10)); !deadline.passed();) {
      if (memory.use_count() == 1) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  testing::SocketPair sockets = testing::connected_sockets();
  std::optional<Channel> borrower{std::in_place, std::move(sockets.other), [](bool) {}};
  const std::shared_ptr<const int> memory = std::make_shared<const int>(1);
  std::optional<PoolHolds> holds{std::in_place,
                                 std::make_shared<Channel>(std::move(sockets.one), [](bool) {})};
};

TEST_F(Holds, are_taken_once_by_whoever_has_one) {
  holds->add(1, memory);
  holds->add(2, memory);
  EXPECT_TRUE(refused(*holds, 3));
  EXPECT_TRUE(holds->take(1));
  EXPECT_TRUE(refused(*holds, 1));
  EXPECT_EQ(memory.use_count(), 2);
  borrower.reset();
  holds.reset();
  EXPECT_EQ(memory.use_count(), 1) << "it has hung up";
}

TEST_F(Holds, stay_until_a_borrower_hangs_up_that_is_told_of_the_end) {
  holds->add(1, memory);
  holds.reset();
  Channel::Received received;
  EXPECT_EQ(borrower->receive(received), Channel::State::kEnded);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(memory.use_count(), 2);
  borrower.reset();
  EXPECT_TRUE(let_go());
}

TEST_F(Holds, do_not_stay_for_ever_for_who_hung_up_and_lives) {
  const auto living = std::make_shared<const platform::Fd>(platform::make_event());  // as a pidfd
  holds->add(1, memory);
  borrower.reset();
  holds->end(living);
  EXPECT_EQ(memory.use_count(), 2);
  EXPECT_TRUE(let_go());
}

TEST_F(Holds, are_let_go_of_when_a_borrower_that_hung_up_is_dead) {
  const auto dead = std::make_shared<const platform::Fd>(platform::make_event());
  platform::signal_event(dead->get());
  holds->add(1, memory);
  borrower.reset();
  holds->end(dead);
  EXPECT_EQ(memory.use_count(), 1);
}

}  // namespace
}  // namespace tensorbus::link
