#include "tensorbus/platform/waiting/notifier.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

namespace tensorbus::platform {
namespace {

bool is_heard(const Notifier& notifier) {
  pollfd ready{notifier.listener.get(), POLLIN, 0};
  return ::poll(&ready, 1, 0) == 1;
}

TEST(Notifier, is_heard_until_it_is_quietened) {
  const Notifier notifier = make_notifier();
  EXPECT_FALSE(is_heard(notifier));
  notify(notifier.sender.get());
  notify(notifier.sender.get());
  EXPECT_TRUE(is_heard(notifier));
  EXPECT_TRUE(drain(notifier.listener.get()));
  EXPECT_FALSE(is_heard(notifier));
  EXPECT_TRUE(drain(notifier.listener.get())) << "there was nothing, and that is no end";
}

TEST(Notifier, that_nobody_listens_to_any_more_can_be_rung) {
  Notifier notifier = make_notifier();
  notifier.listener.reset();
  notify(notifier.sender.get());  // no SIGPIPE
}

TEST(Notifier, that_nobody_can_ring_any_more_says_so) {
  Notifier notifier = make_notifier();
  notify(notifier.sender.get());
  notifier.sender.reset();
  EXPECT_TRUE(drain(notifier.listener.get())) << "it was rung before";
  EXPECT_FALSE(drain(notifier.listener.get()));
}

// With an eventfd, whoever has it could make us wait: the flags belong to both.
TEST(Notifier, that_is_full_and_waits_for_room_is_rung_without_waiting) {
  const Notifier notifier = make_notifier();
  ::fcntl(notifier.sender.get(), F_SETFL, 0);
  for (int i = 0; i < 100'000; ++i) notify(notifier.sender.get());
  EXPECT_TRUE(is_heard(notifier));
}

TEST(Notifier, can_be_told_from_other_descriptors) {
  const Notifier notifier = make_notifier();
  EXPECT_TRUE(is_notifier_sender(notifier.sender.get()));
  EXPECT_FALSE(is_notifier_sender(make_event().get()));
  EXPECT_FALSE(is_notifier_sender(-1));
  const Fd datagrams(::socket(AF_UNIX, SOCK_DGRAM, 0));
  EXPECT_FALSE(is_notifier_sender(datagrams.get()));
  const Fd network(::socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_FALSE(is_notifier_sender(network.get()));
}

}  // namespace
}  // namespace tensorbus::platform
