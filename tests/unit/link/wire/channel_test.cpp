#include "tensorbus/link/wire/channel.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "tensorbus/link/wire/control_messages.hpp"
#include "tensorbus/link/wire/delayed_sender.hpp"
#include "tests/fakes/test_sockets.hpp"

namespace tensorbus::link {
namespace {

using State = Channel::State;

class ChannelPair : public ::testing::Test {
 protected:
  testing::SocketPair sockets = testing::connected_sockets();
  std::vector<bool> told;  // what `near` said about writing
  Channel near{std::move(sockets.one), [this](bool writable) { told.push_back(writable); }};
  Channel far{std::move(sockets.other), [](bool) {}};
  Channel::Received received;

  // Sends notices 0, 1, 2, ... until one has to wait; returns how many.
  std::uint32_t fill() {
    std::uint32_t count = 0;
    while (told.empty()) near.send(Done{count++});
    return count;
  }
};

TEST_F(ChannelPair, a_message_arrives_as_it_was_sent) {
  near.send(Ended{42});
  ASSERT_EQ(far.receive(received), State::kMessage);
  EXPECT_EQ(received.header.type, ControlType::kEnded);
  EXPECT_EQ(received.as<Ended>().number, 42U);
  EXPECT_EQ(far.receive(received), State::kNothing);
}

TEST_F(ChannelPair, a_descriptor_arrives_as_another_one_of_the_same_file) {
  const platform::Fd event = platform::make_event();
  near.send(Event{1}, testing::fds_of(platform::duplicate(event.get())));
  ASSERT_EQ(far.receive(received), State::kMessage);
  const platform::Fd arrived = received.take_fd();
  platform::signal_event(arrived.get());
  std::uint64_t count = 0;
  EXPECT_EQ(::read(event.get(), &count, sizeof count), 8);
}

TEST_F(ChannelPair, a_mark_is_reached_when_the_socket_has_what_was_sent_before_it) {
  const std::uint64_t first = near.mark();
  EXPECT_TRUE(near.has_taken(first));
  fill();
  const std::uint64_t full = near.mark();
  near.send(Done{});
  EXPECT_TRUE(near.has_taken(first));
  EXPECT_FALSE(near.has_taken(full));
  while (far.receive(received) == State::kMessage) continue;
  EXPECT_FALSE(near.has_taken(full)) << "it is not sent yet";
  near.flush();
  EXPECT_TRUE(near.has_taken(full));
}

TEST_F(ChannelPair, what_does_not_fit_waits_and_goes_out_in_order) {
  std::uint32_t sent = fill();
  EXPECT_EQ(told, std::vector<bool>{true});
  for (int i = 0; i < 100; ++i) near.send(Done{sent++});
  EXPECT_EQ(told, std::vector<bool>{true}) << "it is told once";
  near.flush();
  EXPECT_EQ(told, std::vector<bool>{true}) << "there is no room yet";
  for (std::uint32_t next = 0; next < sent; near.flush())
    while (far.receive(received) == State::kMessage) ASSERT_EQ(received.as<Done>().number, next++);
  EXPECT_EQ(told, (std::vector<bool>{true, false}));
}

TEST_F(ChannelPair, descriptors_wait_with_their_messages) {
  fill();
  const platform::Fd event = platform::make_event();
  struct stat before{};
  ASSERT_EQ(::fstat(event.get(), &before), 0);
  near.send(Event{7}, testing::fds_of(platform::duplicate(event.get())));
  bool arrived = false;
  for (; !arrived; near.flush())
    while (far.receive(received) == State::kMessage)
      if (received.header.type == ControlType::kEvent) {
        platform::signal_event(received.take_fd().get());
        arrived = true;
      }
  std::uint64_t count = 0;
  EXPECT_EQ(::read(event.get(), &count, sizeof count), 8);
}

TEST_F(ChannelPair, nobody_is_told_after_detach) {
  near.detach();
  for (std::uint32_t i = 0; i < 20'000; ++i) near.send(Done{i});
  near.flush();
  EXPECT_TRUE(told.empty());
}

TEST_F(ChannelPair, the_end_comes_after_what_was_said_before_it) {
  {
    Channel dying(std::move(testing::SocketPair{testing::connected_sockets()}.one), [](bool) {});
    EXPECT_EQ(dying.receive(received), State::kEnded);
  }
  testing::SocketPair pair = testing::connected_sockets();
  Channel alive(std::move(pair.one), [](bool) {});
  {
    Channel dying(std::move(pair.other), [](bool) {});
    dying.send(Done{1});
  }
  EXPECT_EQ(alive.receive(received), State::kMessage);
  EXPECT_EQ(alive.receive(received), State::kEnded);
  alive.send(Done{2});  // is forgotten
}

TEST_F(ChannelPair, too_many_descriptors_are_refused_and_closed) {
  for (const std::size_t count : {kMaxControlFds + 1, std::size_t{16}}) {
    std::vector<platform::Fd> fds;
    for (std::size_t i = 0; i < count; ++i) fds.push_back(platform::make_event());
    near.send(Done{1}, std::move(fds));
    EXPECT_THROW(far.receive(received), Error) << count;
  }
  near.send(Done{2});
  EXPECT_EQ(far.receive(received), State::kMessage);
}

TEST_F(ChannelPair, more_descriptors_than_a_message_can_hold_are_refused) {
  const platform::Fd event = platform::make_event();
  std::vector<int> fds(253, event.get());
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 253)] = {};
  std::vector<std::byte> bytes = encode_control(Done{1});
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  *header = {
      .cmsg_len = CMSG_LEN(sizeof(int) * 253), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
  std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * 253);
  ASSERT_GT(::sendmsg(near.fd(), &message, MSG_NOSIGNAL), 0);
  EXPECT_THROW(far.receive(received), Error);
}

TEST_F(ChannelPair, a_message_that_is_too_long_is_refused) {
  const std::vector<std::byte> bytes(kMaxControlBytes + 1);
  ASSERT_GT(::send(near.fd(), bytes.data(), bytes.size(), 0), 0);
  EXPECT_THROW(far.receive(received), Error);
}

TEST_F(ChannelPair, what_is_no_message_is_refused) {
  ASSERT_GT(::send(near.fd(), "hello", 5, 0), 0);
  EXPECT_THROW(far.receive(received), Error);
}

TEST_F(ChannelPair, a_descriptor_that_did_not_come_cannot_be_taken) {
  near.send(Event{1});
  ASSERT_EQ(far.receive(received), State::kMessage);
  EXPECT_THROW(received.take_fd(), Error);
}

TEST_F(ChannelPair, many_threads_can_send) {
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::uint32_t i = 0; i < 50; ++i) near.send(Done{t * 1000 + i});
    });
  std::vector<std::uint32_t> next(4);
  for (int count = 0; count < 200;) {
    near.flush();
    if (far.receive(received) != State::kMessage) continue;
    const std::uint32_t number = received.as<Done>().number;
    EXPECT_EQ(number % 1000, next.at(number / 1000)++);
    ++count;
  }
  for (std::thread& thread : threads) thread.join();
}

// To close the last descriptor of such a socket is to wait until its network took everything.
TEST_F(ChannelPair, that_ends_with_lingering_sockets_unread_waits_for_nobody) {
  testing::LingeringSockets lingering;
  testing::SocketPair others = testing::connected_sockets();
  {
    Channel unread(std::move(others.one), [](bool) {});
    Channel peer(std::move(others.other), [](bool) {});
    for (int i = 0; i < 3; ++i) peer.send(Event{1}, testing::fds_of(lingering()));
  }
}

// Both ends of a connection of one participant with itself.
class LoopedBack : public ::testing::Test {
 protected:
  LoopedBack() {
    testing::SocketPair sockets = testing::connected_sockets();
    near = std::make_shared<Channel>(std::move(sockets.one), [](bool) {});
    far = std::make_shared<Channel>(std::move(sockets.other), [](bool) {});
  }
  void join() {
    Channel::loop_back(near, far);
    far->on_looped_back([this] { ++heard; });
  }
  std::uint32_t next() {
    EXPECT_EQ(far->receive(received), State::kMessage);
    return received.as<Done>().number;
  }

  std::shared_ptr<Channel> near;
  std::shared_ptr<Channel> far;
  Channel::Received received;
  int heard = 0;
};

TEST_F(LoopedBack, messages_come_in_order_behind_those_of_the_socket) {
  near->send(Done{1});
  join();
  near->send(Done{2});
  EXPECT_TRUE(near->try_send(Done{3}));
  near->send(Channel::prepare(Return{4, 5}));
  EXPECT_EQ(heard, 1) << "once for all that was not received yet";
  EXPECT_EQ(next(), 1U);
  EXPECT_EQ(next(), 2U);
  EXPECT_TRUE(far->has_more());
  EXPECT_EQ(next(), 3U);
  ASSERT_EQ(far->receive(received), State::kMessage);
  EXPECT_EQ(received.as<Return>().mark, 5U);
  EXPECT_FALSE(far->has_more());
  EXPECT_EQ(far->receive(received), State::kNothing);
}

TEST_F(LoopedBack, a_descriptor_goes_along) {
  join();
  const platform::Fd event = platform::make_event();
  near->send(Event{1}, testing::fds_of(platform::duplicate(event.get())));
  ASSERT_EQ(far->receive(received), State::kMessage);
  platform::signal_event(received.take_fd().get());
  std::uint64_t count = 0;
  EXPECT_EQ(::read(event.get(), &count, sizeof count), 8);
}

TEST_F(LoopedBack, what_was_sent_is_received_before_the_end) {
  join();
  near->send(Done{1});
  EXPECT_FALSE(far->peer_is_gone());
  near.reset();
  EXPECT_TRUE(far->peer_is_gone());
  EXPECT_EQ(next(), 1U);
  EXPECT_EQ(far->receive(received), State::kEnded);
  far->send(Done{2});  // to nobody
}

TEST_F(LoopedBack, what_is_sent_to_an_end_that_hears_no_more_is_dropped) {
  join();
  near->send(Done{1});
  far->detach();
  near->send(Done{2});
  EXPECT_FALSE(far->has_more());
}

// Batches: several messages in one datagram.
class Batches : public ::testing::Test {
 protected:
  Batches() {
    testing::SocketPair sockets = testing::connected_sockets();
    near = std::make_shared<Channel>(std::move(sockets.one), [](bool) {});
    far = std::make_shared<Channel>(std::move(sockets.other), [](bool) {});
  }
  std::vector<std::uint32_t> all() {
    std::vector<std::uint32_t> numbers;
    while (far->receive(received) == State::kMessage) numbers.push_back(received.as<Done>().number);
    return numbers;
  }
  // Returns how many bytes each datagram has.
  std::vector<std::size_t> datagrams() {
    std::vector<std::size_t> sizes;
    std::array<std::byte, 2 * kMaxControlBytes> bytes;
    for (ssize_t n; (n = ::recv(far->fd(), bytes.data(), bytes.size(), MSG_DONTWAIT)) > 0;)
      sizes.push_back(static_cast<std::size_t>(n));
    return sizes;
  }

  std::shared_ptr<Channel> near;
  std::shared_ptr<Channel> far;
  Channel::Received received;
};

TEST_F(Batches, go_at_their_end_and_arrive_one_by_one) {
  {
    const Channel::Batch batch(near);
    for (std::uint32_t i = 0; i < 3; ++i) near->send(Done{i});
    EXPECT_TRUE(near->try_send(Done{3}));
    EXPECT_EQ(all(), std::vector<std::uint32_t>{});
  }
  EXPECT_EQ(far->receive(received), State::kMessage);
  EXPECT_TRUE(far->has_more());
  EXPECT_EQ(all(), (std::vector<std::uint32_t>{1, 2, 3}));
  EXPECT_FALSE(far->has_more());
}

TEST_F(Batches, fill_datagrams_of_the_largest_size) {
  constexpr std::size_t kEach = sizeof(ControlHeader) + 4;
  {
    const Channel::Batch batch(near);
    for (std::uint32_t i = 0; i < 500; ++i) near->send(Done{i});
  }
  const auto sizes = datagrams();
  constexpr std::size_t kFit = kMaxControlBytes / kEach;
  ASSERT_EQ(sizes.size(), 3U);
  EXPECT_EQ(sizes.front(), kFit * kEach);
  EXPECT_EQ(sizes.back(), (500 - 2 * kFit) * kEach);
}

TEST_F(Batches, keep_their_order_when_the_socket_is_full) {
  std::uint32_t sent = 0;
  while (near->waiting() == 0) near->send(Done{sent++});
  {
    const Channel::Batch batch(near);
    for (int i = 0; i < 1'000; ++i) near->send(Done{sent++});
  }
  near->send(Done{sent++});
  std::vector<std::uint32_t> numbers;
  while (numbers.size() < sent) {
    const auto some = all();
    numbers.insert(numbers.end(), some.begin(), some.end());
    near->flush();
  }
  EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
  EXPECT_EQ(numbers.size(), sent);
}

TEST_F(Batches, another_threads_messages_and_descriptors_do_not_wait) {
  const platform::Fd event = platform::make_event();
  const Channel::Batch batch(near);
  near->send(Done{1});
  std::thread([&] { near->send(Done{2}); }).join();
  EXPECT_EQ(all(), (std::vector<std::uint32_t>{1, 2}));
  near->send(Done{3});
  near->send(Event{4}, testing::fds_of(platform::duplicate(event.get())));
  EXPECT_EQ(all(), (std::vector<std::uint32_t>{3, 4}));
}

class Delayed : public Batches {
 protected:
  bool delay(std::uint32_t number) { return near->delay(Channel::prepare(Done{number})); }
  static constexpr std::size_t kEach = sizeof(ControlHeader) + 4;
};

TEST_F(Delayed, messages_go_with_the_next_one) {
  EXPECT_TRUE(delay(1)) << "the caller sees to it";
  EXPECT_FALSE(delay(2));
  EXPECT_EQ(all(), std::vector<std::uint32_t>{});
  near->send(Done{3});
  EXPECT_EQ(datagrams(), std::vector{3 * kEach});
  EXPECT_TRUE(delay(4));
  near->send_delayed();
  near->send_delayed();
  EXPECT_EQ(all(), std::vector<std::uint32_t>{4});
}

TEST_F(Delayed, messages_go_when_they_are_many) {
  for (std::uint32_t i = 0; i < Channel::kMaxDelayed - 1; ++i) (void)delay(i);
  EXPECT_EQ(datagrams(), std::vector<std::size_t>{});
  EXPECT_FALSE(delay(77));
  EXPECT_EQ(datagrams(), std::vector{Channel::kMaxDelayed * kEach});
}

TEST_F(Delayed, messages_go_before_one_with_descriptors) {
  const platform::Fd event = platform::make_event();
  (void)delay(1);
  (void)delay(2);
  near->send(Event{3}, testing::fds_of(platform::duplicate(event.get())));
  EXPECT_EQ(datagrams(), (std::vector{2 * kEach, kEach}));
}

TEST_F(Delayed, messages_of_a_sender_go_when_it_is_told_or_stopped) {
  int armed = 0;
  DelayedSender sender([&] { ++armed; });
  const auto send = [&](std::uint32_t number) {
    sender.send(near, Channel::prepare(Done{number}));
  };
  send(1);
  send(2);
  EXPECT_EQ(armed, 1);
  EXPECT_EQ(all(), std::vector<std::uint32_t>{});
  sender.flush();
  EXPECT_EQ(all(), (std::vector<std::uint32_t>{1, 2}));
  send(3);
  EXPECT_EQ(armed, 2);
  sender.stop();
  EXPECT_EQ(all(), std::vector<std::uint32_t>{3});
  send(4);
  EXPECT_EQ(armed, 2);
  EXPECT_EQ(all(), std::vector<std::uint32_t>{4});
}

TEST_F(Batches, a_second_one_of_the_same_channel_does_nothing) {
  const Channel::Batch batch(near);
  {
    const Channel::Batch inner(near);
    near->send(Done{1});
  }
  EXPECT_EQ(all(), std::vector<std::uint32_t>{});
}

TEST_F(Batches, of_which_a_message_is_cut_short_end_the_connection) {
  std::vector<std::byte> bytes = encode_control(Done{1});
  const auto second = encode_control(Done{2});
  bytes.insert(bytes.end(), second.begin(), second.end() - 1);
  ASSERT_EQ(::send(near->fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(far->receive(received), State::kMessage);
  EXPECT_THROW(far->receive(received), Error);
}

TEST_F(Batches, with_descriptors_end_the_connection) {
  std::vector<std::byte> bytes = encode_control(Done{1});
  const auto second = encode_control(Done{2});
  bytes.insert(bytes.end(), second.begin(), second.end());
  const platform::Fd event = platform::make_event();
  const std::array fds{event.get()};
  ASSERT_EQ(platform::send_datagram(near->fd(), bytes, fds), platform::Transfer::kDone);
  EXPECT_THROW(far->receive(received), Error);
}

}  // namespace
}  // namespace tensorbus::link
