#include "tensorbus/platform/bell.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

namespace tensorbus::platform {
namespace {

bool is_heard(const Bell& bell) {
  pollfd ready{bell.listener.get(), POLLIN, 0};
  return ::poll(&ready, 1, 0) == 1;
}

TEST(Bell, is_heard_until_it_is_quietened) {
  const Bell bell = make_bell();
  EXPECT_FALSE(is_heard(bell));
  ring(bell.ringer.get());
  ring(bell.ringer.get());
  EXPECT_TRUE(is_heard(bell));
  EXPECT_TRUE(quieten(bell.listener.get()));
  EXPECT_FALSE(is_heard(bell));
  EXPECT_TRUE(quieten(bell.listener.get())) << "there was nothing, and that is no end";
}

TEST(Bell, that_nobody_listens_to_any_more_can_be_rung) {
  Bell bell = make_bell();
  bell.listener.reset();
  ring(bell.ringer.get());  // no SIGPIPE
}

TEST(Bell, that_nobody_can_ring_any_more_says_so) {
  Bell bell = make_bell();
  ring(bell.ringer.get());
  bell.ringer.reset();
  EXPECT_TRUE(quieten(bell.listener.get())) << "it was rung before";
  EXPECT_FALSE(quieten(bell.listener.get()));
}

// With an eventfd, whoever has it could make us wait: the flags belong to both.
TEST(Bell, that_is_full_and_waits_for_room_is_rung_without_waiting) {
  const Bell bell = make_bell();
  ::fcntl(bell.ringer.get(), F_SETFL, 0);
  for (int i = 0; i < 100'000; ++i) ring(bell.ringer.get());
  EXPECT_TRUE(is_heard(bell));
}

TEST(Bell, can_be_told_from_other_descriptors) {
  const Bell bell = make_bell();
  EXPECT_TRUE(is_ringer(bell.ringer.get()));
  EXPECT_FALSE(is_ringer(make_event().get()));
  EXPECT_FALSE(is_ringer(-1));
  const Fd datagrams(::socket(AF_UNIX, SOCK_DGRAM, 0));
  EXPECT_FALSE(is_ringer(datagrams.get()));
  const Fd network(::socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_FALSE(is_ringer(network.get()));
}

}  // namespace
}  // namespace tensorbus::platform
