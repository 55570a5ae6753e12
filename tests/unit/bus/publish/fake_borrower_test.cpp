// An owner against borrowers that speak the control messages themselves, rightly and wrongly.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>

#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/device/memory/device_exports.hpp"
#include "tensorbus/link/ring/link_segment.hpp"
#include "tensorbus/platform/waiting/notifier.hpp"
#include "tests/fakes/fake_peer.hpp"
#include "tests/fakes/test_sockets.hpp"

namespace tensorbus::bus {
namespace {

using namespace tensorbus::testing;
using link::ControlType;
using link::testing::fds_of;
using testing::FakePeer;

class FakeBorrower : public ::testing::Test {
 protected:
  FakeBorrower() { peer.say_hello(); }

  link::Subscribe subscribe(std::uint32_t number) const {
    return {.link = number, .publisher = 1, .depth = 2, .max_held = 2, .topic = "topic"};
  }
  // Everybody else goes on.
  void others_go_on() {
    publish_patterns(publisher, 1, 1);
    EXPECT_EQ(next_seeds(subscriber, 1), Seeds{1});
  }
  void hangs_up() {
    while (const auto type = peer.next()) EXPECT_EQ(*type, ControlType::kHello);
    others_go_on();
  }
  void greeted() { ASSERT_EQ(peer.next(), ControlType::kHello); }

  const FreshDomain fresh;
  const bus::ParticipantRef owner = fresh.join();
  const bus::ParticipantRef borrower = fresh.join();
  bus::Publisher publisher{"topic", {}, owner};
  bus::Subscriber subscriber{"topic", {}, borrower};
  const Outcome connected = publisher.wait_for_subscribers(1, kLong);
  const Domain domain{fresh.path()};
  FakePeer peer{domain.connect(owner->id()).socket};
};

TEST_F(FakeBorrower, that_says_the_right_things_is_accepted) {
  greeted();
  peer.channel.send(subscribe(1));
  ASSERT_EQ(peer.next(), ControlType::kAccepted);
  EXPECT_EQ(peer.received.as<link::Accepted>().max_held, 2U);
  others_go_on();
}

TEST_F(FakeBorrower, of_another_version_is_told_so) {
  FakePeer old(domain.connect(owner->id()).socket);
  std::vector<std::byte> bytes = link::encode_control(link::Hello{Id::random(), 1, 1, 0});
  bytes[6] = std::byte{99};
  ASSERT_GT(::send(old.channel.fd(), bytes.data(), bytes.size(), 0), 0);
  ASSERT_EQ(old.next(), ControlType::kRefused);
  const auto refused = old.received.as<link::Refused>();
  EXPECT_EQ(refused.link, 0U);
  EXPECT_EQ(refused.code, static_cast<std::uint32_t>(Code::kVersionMismatch));
  EXPECT_NE(refused.text.find("version 99"), std::string::npos);
  EXPECT_EQ(old.next(), std::nullopt);
  others_go_on();
}

TEST_F(FakeBorrower, asking_for_what_there_is_not_is_refused_and_may_ask_again) {
  greeted();
  link::Subscribe wrong = subscribe(1);
  wrong.publisher = 77;
  peer.channel.send(wrong);
  EXPECT_EQ(peer.next(), ControlType::kRefused);
  wrong = subscribe(2);
  wrong.topic = "another";
  peer.channel.send(wrong);
  EXPECT_EQ(peer.next(), ControlType::kRefused);
  peer.channel.send(subscribe(3));
  EXPECT_EQ(peer.next(), ControlType::kAccepted);
}

TEST_F(FakeBorrower, closing_what_it_was_not_sent_is_cut_off) {
  greeted();
  peer.channel.send(link::DeviceClosed{memory::SegmentId::foreign(0)});
  hangs_up();
}

// A subscriber may close while the refusal of its link is under way.
TEST_F(FakeBorrower, giving_up_a_link_that_was_refused_keeps_the_connection) {
  greeted();
  link::Subscribe wrong = subscribe(1);
  wrong.publisher = 77;
  peer.channel.send(wrong);
  peer.channel.send(link::Unsubscribe{1});
  peer.channel.send(link::Done{1});
  EXPECT_EQ(peer.next(), ControlType::kRefused);
  peer.channel.send(subscribe(2));
  EXPECT_EQ(peer.next(), ControlType::kAccepted);
}

// A publisher may push before it has the event that the subscriber asks it to signal.
TEST_F(FakeBorrower, that_hands_its_notifier_over_late_is_woken_for_what_came_before) {
  greeted();
  peer.channel.send(subscribe(1));
  ASSERT_EQ(peer.next(), ControlType::kAccepted);
  peer.page.slot(0).sleeping = link::kSleepsOnEvent;
  publish_patterns(publisher, 1, 1);
  platform::Notifier notifier = platform::make_notifier();
  peer.channel.send(link::Event{1}, fds_of(std::move(notifier.sender)));
  pollfd ready{notifier.listener.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, static_cast<int>(std::chrono::milliseconds(kLong).count())), 1);
}

TEST_F(FakeBorrower, asking_to_write_is_refused_unless_the_publisher_is_shared) {
  greeted();
  link::Subscribe writing = subscribe(1);
  writing.writable = 1;
  peer.channel.send(writing);
  ASSERT_EQ(peer.next(), ControlType::kRefused);
  const auto refused = peer.received.as<link::Refused>();
  EXPECT_EQ(refused.code, static_cast<std::uint32_t>(Code::kUnsupported));
  EXPECT_NE(refused.text.find("shared=True"), std::string::npos) << refused.text;
  peer.channel.send(subscribe(2));
  EXPECT_EQ(peer.next(), ControlType::kAccepted);
  others_go_on();
}

TEST_F(FakeBorrower, asking_to_write_and_to_read_gets_a_descriptor_for_each) {
  bus::Publisher open("open", {.shared = true}, owner);
  greeted();
  for (const std::uint32_t writable : {0U, 1U}) {
    peer.channel.send(link::Subscribe{.link = 5 + writable,
                                      .publisher = 2,
                                      .depth = 2,
                                      .max_held = 2,
                                      .writable = writable,
                                      .topic = "open"});
    ASSERT_EQ(peer.next(), ControlType::kAccepted);
  }
  ASSERT_TRUE(eventually([&] { return open.subscribers() == 2; }));
  publish_patterns(open, 1, 3);
  for (const std::uint32_t writable : {0U, 1U}) {
    ASSERT_EQ(peer.next(), ControlType::kSegment);
    EXPECT_EQ(peer.received.as<link::SegmentMessage>().writable, writable);
    const platform::Fd fd = peer.received.take_fd();
    EXPECT_EQ(::fcntl(fd.get(), F_GETFL) & O_ACCMODE, writable == 1 ? O_RDWR : O_RDONLY);
  }
  EXPECT_EQ(peer.channel.receive(peer.received), link::Channel::State::kNothing);
}

TEST_F(FakeBorrower, asking_for_what_is_neither_to_read_nor_to_write_is_cut_off) {
  link::Subscribe wrong = subscribe(1);
  wrong.writable = 2;
  peer.channel.send(wrong);
  hangs_up();
}

TEST_F(FakeBorrower, using_a_link_number_twice_is_cut_off) {
  greeted();
  peer.channel.send(subscribe(1));
  ASSERT_EQ(peer.next(), ControlType::kAccepted);
  peer.channel.send(subscribe(1));
  hangs_up();
  EXPECT_TRUE(eventually([&] { return publisher.subscribers() == 1; }));
}

TEST_F(FakeBorrower, with_a_wake_slot_beyond_its_page_is_cut_off) {
  link::Subscribe wrong = subscribe(1);
  wrong.wake_slot = link::kWakeSlots;
  peer.channel.send(wrong);
  hangs_up();
}

TEST_F(FakeBorrower, with_a_pipe_for_an_event_is_cut_off) {
  peer.channel.send(subscribe(1), fds_of(link::testing::some_pipe()));
  hangs_up();
}

TEST_F(FakeBorrower, with_two_events_is_cut_off) {
  peer.channel.send(subscribe(1),
                    fds_of(platform::make_notifier().sender, platform::make_notifier().sender));
  hangs_up();
}

TEST_F(FakeBorrower, saying_hello_twice_is_cut_off) {
  peer.say_hello();
  hangs_up();
}

TEST_F(FakeBorrower, speaking_as_an_owner_is_cut_off) {
  peer.channel.send(link::Ended{1});
  hangs_up();
}

TEST_F(FakeBorrower, talking_nonsense_is_cut_off) {
  ASSERT_GT(::send(peer.channel.fd(), "nonsense", 8, 0), 0);
  hangs_up();
}

TEST_F(FakeBorrower, that_never_greets_costs_nothing) {
  const FakePeer silent(domain.connect(owner->id()).socket);
  others_go_on();
}

TEST_F(FakeBorrower, asking_for_much_gets_what_is_possible) {
  greeted();
  link::Subscribe greedy = subscribe(1);
  greedy.depth = 0xffffffff;
  greedy.max_held = 0xffffffff;
  peer.channel.send(greedy);
  const auto answer = peer.next();
  ASSERT_TRUE(answer);
  if (answer == ControlType::kAccepted) {
    EXPECT_LE(peer.received.as<link::Accepted>().slots, link::kMaxDepth);
  }
  others_go_on();
}

TEST_F(FakeBorrower, that_writes_all_over_its_link_hurts_itself_alone) {
  greeted();
  peer.channel.send(subscribe(1));
  ASSERT_EQ(peer.next(), ControlType::kAccepted);
  const auto accepted = peer.received.as<link::Accepted>();
  link::LinkSegment memory(peer.received.take_fd(), {accepted.slots, accepted.returns});
  std::uint64_t word = 1;
  const auto garbage = [&] {
    return word = word * 6364136223846793005ULL + 1442695040888963407ULL;
  };
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    publish_patterns(publisher, seed, 1);
    EXPECT_EQ(next_seeds(subscriber, 1), Seeds{seed});
    // First the leases of entries that were never popped, then anything.
    for (std::size_t i = 0; i < memory.slots().size(); ++i)
      memory.returns()[i].token = memory.slots()[i].words[2].load();
    *memory.return_tail() = seed < 250 ? seed : garbage();
    if (seed % 3 == 0) memory.slots()[seed % memory.slots().size()].state = garbage() >> seed % 64;
  }
  peer.channel.send(link::Done{1});
  EXPECT_TRUE(eventually([&] { return publisher.subscribers() == 1; }));
  EXPECT_TRUE(eventually([&] { return used_bytes(owner, {&publisher}) == 0; }));
}

TEST_F(FakeBorrower, whose_returns_make_no_sense_holds_up_no_reliable_publisher) {
  bus::Publisher reliable("reliable", {.reliable = true}, owner);
  bus::Subscriber honest("reliable", {}, borrower);
  ASSERT_EQ(reliable.wait_for_subscribers(1, kLong), Outcome::kDone);
  greeted();
  link::Subscribe asked = subscribe(1);
  asked.publisher = 2;
  asked.topic = "reliable";
  peer.channel.send(asked);
  ASSERT_EQ(peer.next(), ControlType::kAccepted);
  const auto accepted = peer.received.as<link::Accepted>();
  link::LinkSegment memory(peer.received.take_fd(), {accepted.slots, accepted.returns});
  ASSERT_EQ(reliable.wait_for_subscribers(2, kLong), Outcome::kDone);
  *memory.return_tail() = ~std::uint64_t{0};
  for (link::Slot& slot : memory.slots()) slot.state = ~std::uint64_t{0};  // "popped"
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    publish_patterns(reliable, seed, 1);
    EXPECT_EQ(next_seeds(honest, 1), Seeds{seed});
    for (link::Slot& slot : memory.slots()) slot.state = ~std::uint64_t{0};
  }
  EXPECT_EQ(reliable.stats().bad_returns, 1U);
  EXPECT_EQ(reliable.subscribers(), 1U);
  std::optional<ControlType> last;
  while (last != ControlType::kEnded && (last = peer.next())) continue;
  EXPECT_EQ(last, ControlType::kEnded) << "it is told";
}

// The flags of a socket that was handed over belong to both.
TEST_F(FakeBorrower, whose_notifier_is_full_and_waits_for_room_holds_nobody_up) {
  greeted();
  const platform::Notifier notifier = platform::make_notifier();
  ::fcntl(notifier.sender.get(), F_SETFL, 0);
  peer.page.slot(0).sleeping = link::kSleepsOnEvent;
  peer.channel.send(subscribe(1), fds_of(platform::duplicate(notifier.sender.get())));
  ASSERT_EQ(peer.next(), ControlType::kAccepted);
  std::vector<char> rings(1 << 20);
  (void)::send(notifier.sender.get(), rings.data(), rings.size(), MSG_DONTWAIT);
  ASSERT_LT(::send(notifier.sender.get(), rings.data(), 1, MSG_DONTWAIT), 0) << "it is full";
  for (int i = 0; i < 10; ++i) others_go_on();
}

TEST_F(FakeBorrower, with_an_eventfd_for_a_notifier_is_cut_off) {
  peer.channel.send(subscribe(1), fds_of(platform::make_event()));
  hangs_up();
}

// To close the last descriptor of such a socket is to wait until its network took everything.
class Lingering : public FakeBorrower {
 protected:
  void still_answers() {
    hangs_up();
    FakePeer next(domain.connect(owner->id()).socket);
    next.say_hello();
    EXPECT_EQ(next.next(), ControlType::kHello);
  }

  link::testing::LingeringSockets lingering;
};

TEST_F(Lingering, sockets_for_a_notifier_hold_nobody_up) {
  greeted();
  peer.channel.send(link::Event{1}, fds_of(lingering()));
  still_answers();
}

TEST_F(Lingering, sockets_behind_more_descriptors_than_allowed_hold_nobody_up) {
  greeted();
  std::vector<platform::Fd> many;
  for (int i = 0; i < 20; ++i) many.push_back(platform::make_event());
  many.push_back(lingering());
  std::vector<int> numbers;
  for (const platform::Fd& fd : many) numbers.push_back(fd.get());
  std::vector<char> control(CMSG_SPACE(sizeof(int) * numbers.size()));
  char byte = 0;
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * numbers.size());
  std::memcpy(CMSG_DATA(header), numbers.data(), sizeof(int) * numbers.size());
  ASSERT_EQ(::sendmsg(peer.channel.fd(), &message, 0), 1);
  many.clear();
  still_answers();
}

TEST_F(FakeBorrower, that_never_greets_is_cut_off_some_time) {
  FakePeer silent(domain.connect(owner->id()).socket);
  EXPECT_EQ(silent.next(), std::nullopt);
  char none = 0;
  EXPECT_EQ(::recv(silent.channel.fd(), &none, 1, MSG_DONTWAIT), 0) << "it hung up";
  greeted();
  others_go_on();
}

TEST_F(FakeBorrower, that_asks_and_asks_and_reads_no_answer_is_heard_again_when_it_has) {
  greeted();
  link::Subscribe wrong = subscribe(1);
  wrong.publisher = 77;
  const std::vector<std::byte> question = link::encode_control(wrong);
  constexpr std::uint64_t kFar = 100'000;
  std::uint64_t asked = 0;
  pollfd room{peer.channel.fd(), POLLOUT, 0};
  // The owner hears each as long as it is rid of its answers; then both sockets are full.
  while (asked < kFar && ::poll(&room, 1, 500) == 1)
    asked += ::send(peer.channel.fd(), question.data(), question.size(), MSG_DONTWAIT) > 0 ? 1 : 0;
  EXPECT_LT(asked, kFar) << "all of their answers wait in the owner's memory";
  others_go_on();
  for (std::uint64_t i = 0; i < asked; ++i) ASSERT_EQ(peer.next(), ControlType::kRefused) << i;
  peer.channel.send(subscribe(2));
  EXPECT_EQ(peer.next(), ControlType::kAccepted);
}

TEST_F(FakeBorrower,
       asking_for_more_queues_than_a_process_can_bear_is_refused_until_some_are_gone) {
  greeted();
  std::uint32_t link = 0;
  const auto next_answer = [&] {
    link::Subscribe greedy = subscribe(++link);
    greedy.depth = link::kMaxDepth;
    greedy.max_held = link::kMaxHeld;
    peer.channel.send(greedy);
    auto answer = peer.next();
    while (answer == ControlType::kSegment) answer = peer.next();  // of a link it has already
    return answer;
  };
  while (next_answer() == ControlType::kAccepted && link < 1000) {
  }
  ASSERT_EQ(peer.received.header.type, ControlType::kRefused);
  const auto refused = peer.received.as<link::Refused>();
  EXPECT_EQ(refused.code, static_cast<std::uint32_t>(Code::kOutOfMemory)) << refused.text;
  others_go_on();
  peer.channel.send(link::Done{1});
  EXPECT_EQ(next_answer(), ControlType::kAccepted);
}

}  // namespace
}  // namespace tensorbus::bus
