// Queues (docs/internals/protocol.md, section 7) against clients that speak to their server
// themselves, rightly and wrongly.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <optional>
#include <thread>
#include <utility>

#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/bus/queue.hpp"
#include "tensorbus/bus/queue_client/queue_markers.hpp"
#include "tensorbus/link/ring/sample_ring.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/platform/fork/lineage.hpp"
#include "tests/unit/bus/queue/fake_client.hpp"

namespace tensorbus::bus {
namespace {

using namespace tensorbus::testing;
using link::ControlType;
using testing::FakeClient;
using testing::FakePeer;
using testing::tensor_at;

TEST_F(FakeClient, that_has_no_key_or_no_queue_is_denied) {
  ++name.key;
  get(1);
  EXPECT_EQ(denied(), Code::kInvalidArgument);
  peer.channel.send(link::QueueCall{2, name, static_cast<std::uint32_t>(link::QueueVerb::kOpen)});
  EXPECT_EQ(denied(), Code::kInvalidArgument) << "it has no name to be opened by";
  name.number = 99;
  get(3);
  EXPECT_EQ(denied(), Code::kClosed);
  others_go_on();
}

TEST_F(FakeClient, that_asks_for_what_there_is_not_is_denied) {
  for (const std::uint32_t verb : {8U, 77U, 0xffffffffU}) {
    peer.channel.send(link::QueueCall{verb, name, verb});
    EXPECT_EQ(denied(), Code::kInvalidArgument);
  }
  peer.channel.send(
      link::QueueCall{9, name, static_cast<std::uint32_t>(link::QueueVerb::kTaskDone)});
  EXPECT_EQ(denied(), Code::kInvalidArgument);
  peer.channel.send(link::Cancel{12345});
  others_go_on();
}

TEST_F(FakeClient, that_puts_what_is_not_there_is_denied) {
  peer.channel.send(link::Put{1, name, 0, tensor_at(0)});  // of a segment that it never sent
  EXPECT_EQ(denied(), Code::kProtocol);
  constexpr std::size_t kItemBytes = 4096;
  std::vector<platform::Fd> fds;
  fds.push_back(platform::create_sealed_memfd("x", kItemBytes));
  peer.channel.send(link::SegmentMessage{0, kItemBytes, 0}, std::move(fds));
  peer.channel.send(link::Put{2, name, 0, tensor_at(kItemBytes - 8)});  // beyond its end
  EXPECT_EQ(denied(), Code::kProtocol);
  link::Lent cut = tensor_at(0);
  cut.inline_bytes.resize(5);
  peer.channel.send(link::Put{3, name, 0, cut});
  EXPECT_EQ(denied(), Code::kProtocol);
  others_go_on();
}

TEST_F(FakeClient, that_takes_what_it_was_not_offered_changes_nothing) {
  put(3);
  for (std::uint32_t request = 0; request < 20; ++request)  // the socket takes them
    for (const std::uint32_t spoilt : {0U, 1U, 2U})
      peer.channel.send(link::Take{request, name, spoilt});
  link::QueueName elsewhere = name;
  ++elsewhere.number;
  peer.channel.send(link::Take{1, elsewhere, 0});
  EXPECT_EQ(state(), (State{1, 1, 0}));
  EXPECT_EQ(take_from(other), 3U);
}

TEST_F(FakeClient, that_dies_with_an_offer_has_taken_nothing) {
  put(3);
  get(1);
  ASSERT_EQ(hear_offer(), 0U) << "without redeliver items have no names";
  EXPECT_EQ(queue.stats().items, 1U) << "it is the queue's until it was taken";
  EXPECT_EQ(queue.put(pattern(9), 0s), Outcome::kTimedOut) << "and takes its room";
  die();
  EXPECT_EQ(take_from(other), 3U);
  EXPECT_EQ(queue.stats().lost, 0U);
}

TEST_F(FakeClient, that_dies_right_after_it_took_an_item_has_taken_it) {
  put(3);
  get(1);
  ASSERT_TRUE(hear_offer());
  peer.channel.send(link::Take{1, name, 0});
  die();
  EXPECT_TRUE(eventually([&] { return queue.stats().lost == 1; }));
  EXPECT_EQ(queue.stats().items, 0U);
  EXPECT_EQ(queue.join(kLong), Outcome::kDone);
  others_go_on();
}

TEST_F(FakeClient, that_cancels_an_offer_gets_nothing_for_it_any_more) {
  put(3);
  get(1);
  ASSERT_TRUE(hear_offer());
  peer.channel.send(link::Cancel{1});
  peer.channel.send(link::Take{1, name, 0});  // too late
  EXPECT_EQ(take_from(other), 3U);
  EXPECT_EQ(state(), (State{0, 1, 0}));
}

TEST_F(FakeClient, that_says_that_an_item_is_spoilt_has_it_counted_as_lost) {
  put(3);
  get(1);
  ASSERT_TRUE(hear_offer());
  peer.channel.send(link::Take{1, name, 1});
  EXPECT_EQ(state(), (State{0, 0, 1}));
  others_go_on();
}

TEST_F(FakeClient, that_names_what_it_does_not_have_is_denied) {
  bus::Queue again({.redeliver = true}, server);
  name = name_of(again);
  for (std::uint64_t seed = 1; seed <= 2; ++seed)
    ASSERT_EQ(again.put(pattern(seed), kLong), Outcome::kDone);
  get(1);
  get(2);
  const auto older = hear_offer();
  const auto newer = hear_offer();
  ASSERT_TRUE(older && newer);
  EXPECT_LT(*older, *newer);
  peer.channel.send(link::Take{2, name, 0});
  finish(3, *older);  // offered, and not taken
  EXPECT_EQ(denied(), Code::kInvalidArgument);
  finish(4, *newer);
  EXPECT_EQ(peer.next(), ControlType::kReply);
  finish(5, *newer);  // once more
  EXPECT_EQ(denied(), Code::kInvalidArgument);
  die();
  bus::Sample sample;
  ASSERT_EQ(again.get(sample, kLong), Outcome::kDone);
  EXPECT_EQ(seed_of(sample), 1U) << "the one that was never taken";
  again.task_done();
  EXPECT_EQ(again.join(kLong), Outcome::kDone);
}

TEST_F(FakeClient, that_gives_back_what_it_does_not_have_is_denied) {
  constexpr auto kGiveBack = static_cast<std::uint32_t>(link::QueueVerb::kGiveBack);
  put(3);
  for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    peer.channel.send(link::QueueCall{1, name, kGiveBack, number});
    EXPECT_EQ(denied(), Code::kInvalidArgument);
  }
  get(2);
  ASSERT_TRUE(hear_offer());
  peer.channel.send(link::QueueCall{3, name, kGiveBack, 0});
  EXPECT_EQ(denied(), Code::kInvalidArgument) << "offered, and not taken";
  peer.channel.send(link::Take{2, name, 0});
  peer.channel.send(link::QueueCall{4, name, kGiveBack, 2});
  EXPECT_EQ(denied(), Code::kInvalidArgument) << "it has one";
  peer.channel.send(link::QueueCall{5, name, kGiveBack, 1});
  EXPECT_EQ(peer.next(), ControlType::kReply);
  EXPECT_EQ(state(), (State{0, 0, 1}));
  others_go_on();
}

TEST_F(FakeClient, that_dies_while_it_waits_is_passed_over) {
  for (std::uint32_t request = 1; request <= 1000; ++request) get(request);
  die();
  others_go_on();
}

TEST_F(FakeClient, that_waits_without_end_is_bounded) {
  constexpr std::uint32_t kMax = 65'536;
  std::uint32_t denials = 0;
  for (std::uint32_t request = 1; request <= kMax + 10; ++request) {
    get(request);
    peer.channel.flush();
    while (peer.channel.waiting() > 0) peer.channel.flush();
  }
  while (denials < 10 && peer.next() == ControlType::kDenied) ++denials;
  EXPECT_EQ(denials, 10U);
  die();
  others_go_on();
}

TEST_F(FakeClient, that_tells_what_nobody_asked_is_cut_off) {
  peer.channel.send(link::Reply{.request = 1});
  while (peer.next()) {
  }
  others_go_on();
}

TEST_F(FakeClient, that_gets_the_same_request_twice_gets_an_item_for_each_and_hurts_itself_alone) {
  get(7);
  get(7);
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    put(seed);
    peer.channel.send(link::Take{7, name, 0});
    EXPECT_TRUE(eventually([&] { return queue.stats().items == 0; }));
  }
  die();
  EXPECT_TRUE(eventually([&] { return server->memory_use().used_bytes == 0; }));
  EXPECT_EQ(queue.stats().lost, 2U);
  others_go_on();
}

TEST(FakeQueueServer, that_hangs_up_in_front_of_an_item_leaves_its_memory_to_its_sender) {
  const FreshDomain fresh;
  const bus::ParticipantRef producer = fresh.join();
  const Domain domain{fresh.path()};
  const Id self = Id::random();
  const platform::Fd listener = domain.listen(self);
  std::thread server([&] {
    std::optional<FakePeer> peer;
    EXPECT_TRUE(eventually([&] {
      if (platform::Fd socket = platform::accept_from(listener.get()))
        peer.emplace(std::move(socket));
      return peer.has_value();
    }));
    // A lineage that goes on: the process of this server lives longer than its connections.
    link::send_hello(peer->channel, self, peer->page, platform::own_lineage());
    auto type = peer->next();
    while (type && type != ControlType::kPut) type = peer->next();
    EXPECT_EQ(type, ControlType::kPut);
  });
  bus::Queue queue = bus::Queue::at("tensorbus-queue:" + self.hex() + ":1:2", {}, producer);
  std::vector<std::uint64_t> words(64);
  EXPECT_EQ(queue.put({.tensors = {TensorView::of(words.data(), {64})}}, kLong), Outcome::kClosed);
  server.join();
  EXPECT_TRUE(eventually([&] { return producer->memory_use().used_bytes == 0; }));
}

TEST(FakeQueueServer, that_ends_while_its_name_is_opened_does_not_end_the_wait_for_the_name) {
  const FreshDomain fresh;
  const bus::ParticipantRef maker = fresh.join();
  const bus::ParticipantRef client = fresh.join();
  const Domain domain{fresh.path()};
  const Id self = Id::random();
  platform::Fd listener = domain.listen(self);
  const std::string marker = add_queue_marker(domain, "jobs", {self, {1, 0}}, {});
  std::optional<bus::Queue> next;
  std::thread server([&] {
    EXPECT_TRUE(eventually([&] {  // others only look whether it lives
      platform::Fd socket = platform::accept_from(listener.get());
      return socket && FakePeer(std::move(socket)).next() == ControlType::kHello;
    }));
    domain.remove_file(marker);
    listener.reset();
    next.emplace(QueueOptions{.name = "jobs"}, maker);
  });
  std::string opened;
  EXPECT_NO_THROW(opened = bus::Queue::open("jobs", kLong, client).address());
  server.join();
  EXPECT_EQ(opened, next->address());
}

}  // namespace
}  // namespace tensorbus::bus
