// Queues, shares, the listing of a domain, and participants.

#include <poll.h>
#include <tensorbus/c/version.h>

#include <tensorbus/version.hpp>

#include "support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class Domain : public ::testing::Test {
 protected:
  const FreshDomain domain;
  const Participant participant = domain.join();
  const Participant other = domain.join();
  Sample sample;
  const float one = 1;
  const Message item{.tensors = {TensorView::of(&one, {1})}};
};

TEST_F(Domain, queue_says_what_it_is) {
  const Queue queue({.maxsize = 3, .redeliver = true, .shared = true, .name = "jobs"}, participant);
  EXPECT_TRUE(queue.made_here());
  const QueueOptions options = queue.options();
  EXPECT_EQ(options.maxsize, 3U);
  EXPECT_TRUE(options.redeliver);
  EXPECT_TRUE(options.shared);
  EXPECT_EQ(options.name, "jobs");
  EXPECT_EQ(Queue::open("jobs", kLong, {}, other).address(), queue.address());
}

TEST_F(Domain, queue_by_its_address_asks_nobody) {
  std::optional<Queue> queue(std::in_place, QueueOptions{.shared = true}, participant);
  Queue same = Queue::at(queue->address(), {.shared = true}, other);
  EXPECT_FALSE(same.made_here());
  ASSERT_EQ(queue->put(item), Outcome::kDone);
  ASSERT_EQ(same.get(sample, kLong), Outcome::kDone);
  EXPECT_TRUE(sample.tensor().writable());
  const std::string address = queue->address();
  queue.reset();
  Queue late = Queue::at(address, {}, other);
  EXPECT_EQ(late.get(sample, kLong), Outcome::kClosed);
  EXPECT_EQ(code_of([&] { (void)Queue::at("nonsense", {}, other); }), Code::kInvalidArgument);
}

TEST_F(Domain, queue_is_awaited_in_an_event_loop) {
  Queue queue({.maxsize = 1}, participant);
  Queue::Pending get = queue.start_get();
  EXPECT_TRUE(get.is_get());
  EXPECT_EQ(get.take(sample), Outcome::kTimedOut);
  Queue::Pending put = queue.start_put(item);
  Queue::Pending join = queue.start_join();
  for (Queue::Pending* pending : {&get, &put}) {
    pollfd polled{pending->descriptor(), POLLIN, 0};
    ASSERT_EQ(::poll(&polled, 1, 30'000), 1);
    EXPECT_EQ(pending->take(sample), Outcome::kDone);
  }
  EXPECT_EQ(sample.tensor().as<float>()[0], 1);
  EXPECT_EQ(join.take(sample), Outcome::kTimedOut);
  queue.task_done();
  pollfd polled{join.descriptor(), POLLIN, 0};
  ASSERT_EQ(::poll(&polled, 1, 30'000), 1);
  EXPECT_EQ(join.take(sample), Outcome::kDone);
}

TEST_F(Domain, queue_that_is_full_empty_or_closed_says_so) {
  Queue queue({.maxsize = 1}, participant);
  EXPECT_EQ(queue.get(sample, 0ns), Outcome::kTimedOut);
  EXPECT_EQ(code_of([&] { queue.task_done(); }), Code::kInvalidArgument);
  EXPECT_EQ(queue.put(item, 0ns), Outcome::kDone);
  EXPECT_EQ(queue.put(item, 0ns), Outcome::kTimedOut);
  EXPECT_EQ(queue.stats().items, 1U);
  queue.close();
  EXPECT_EQ(queue.put(item), Outcome::kClosed);
  EXPECT_EQ(queue.get(sample), Outcome::kClosed);
}

TEST_F(Domain, handle_is_a_line_of_text) {
  const Shared shared = share(item, {}, participant);
  const Handle handle = Handle::parse(shared.handle().text());
  EXPECT_EQ(handle, shared.handle());
  EXPECT_EQ(attach(handle, {}, other).tensor().as<float>()[0], 1);
  const std::string text = handle.text();
  for (const std::string& wrong : {std::string(), std::string("tensorbus:?"), text + "A",
                                   text.substr(0, text.size() - 4), text + '\0'})
    EXPECT_EQ(code_of([&] { (void)Handle::parse(wrong); }), Code::kInvalidArgument) << wrong;
}

TEST_F(Domain, handle_travels_in_a_message) {
  const Shared shared = share(item, {}, participant);
  const Value fields = Value::Map{{"weights", shared.handle()}, {"text", shared.handle().text()}};
  const Value received = Value::decode(fields.encode());
  const Handle handle = Handle::of(received.at("weights"));
  EXPECT_EQ(handle, shared.handle());
  EXPECT_EQ(attach(handle, {}, other).tensor().as<float>()[0], 1);
  const Value unlike = Value::Extension{3, Value(Value::List{"set", 1}).encode()};
  const Value broken = Value::Extension{3, Value(Value::List{"handle", "tensorbus:?"}).encode()};
  for (const Value& wrong : {received, received.at("text"), unlike, broken})
    EXPECT_EQ(code_of([&] { (void)Handle::of(wrong); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { (void)Value(Handle()); }), Code::kInvalidArgument);
}

TEST_F(Domain, share_that_is_over_can_be_attached_no_more) {
  Shared shared = share(item, {.uses = 1}, participant);
  const Handle handle = shared.handle();
  EXPECT_TRUE(shared.open());
  EXPECT_EQ(code_of([&] { (void)attach(handle, {.access = Access::kShared}, other); }),
            Code::kPermission);
  ASSERT_EQ(attach(sample, handle, {.timeout = kLong}, other), Outcome::kDone);
  EXPECT_FALSE(shared.open());
  EXPECT_EQ(code_of([&] { (void)attach(handle, {}, other); }), Code::kClosed);
  Shared again = share(item, {}, participant);
  again.close();
  EXPECT_FALSE(again.open());
  EXPECT_EQ(code_of([&] { (void)attach(again.handle(), {}, other); }), Code::kClosed);
  EXPECT_EQ(sample.tensor().as<float>()[0], 1);
}

TEST_F(Domain, lists_who_is_there) {
  const MessageType type("a.Type\nx: int");
  std::optional<Publisher> publisher(std::in_place, "frames",
                                     PublisherOptions{.type = type, .node = "camera"}, other);
  const NodeName name("camera", other);
  EXPECT_EQ(wait_for_topic("frames", kLong, {}, participant), Outcome::kDone);
  EXPECT_EQ(wait_for_node("camera", kLong, {}, participant), Outcome::kDone);
  const auto publishers = list_publishers(participant);
  ASSERT_EQ(publishers.size(), 1U);
  EXPECT_EQ(publishers[0].topic, "frames");
  EXPECT_EQ(publishers[0].node, "camera");
  EXPECT_EQ(publishers[0].type.definition(), type.definition());
  EXPECT_EQ(publishers[0].participant, other.id());
  EXPECT_EQ(publishers[0].pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(publishers[0].depth, PublisherOptions().depth);
  EXPECT_FALSE(publishers[0].reliable);
  EXPECT_EQ(publishers[0].machine, "");
  const auto nodes = list_nodes(participant);
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(nodes[0].name, "camera");
  EXPECT_EQ(nodes[0].participant, other.id());
  publisher.reset();
  EXPECT_TRUE(eventually([&] { return list_publishers(participant).empty(); }));
  EXPECT_EQ(wait_for_topic("frames", 1ms, {}, participant), Outcome::kTimedOut);
  EXPECT_EQ(code_of([&] { const NodeName empty("", participant); }), Code::kInvalidArgument);
}

TEST_F(Domain, participant_has_an_arena_of_its_own) {
  const Participant small = domain.join({.budget_bytes = 1 << 20, .warm_bytes = 0});
  EXPECT_NE(small.id(), participant.id());
  EXPECT_EQ(small.domain_path(), domain.path());
  Publisher publisher("topic", {}, small);
  {
    const Loan loan = filled_loan(publisher, 1);
    EXPECT_EQ(small.arena().blocks, 1U);
    EXPECT_GE(small.arena().used_bytes, 4000U);
    EXPECT_EQ(small.arena().budget_bytes, 1U << 20);
    EXPECT_EQ(code_of([&] { (void)publisher.loan<float>({1 << 20}); }), Code::kOutOfMemory);
  }
  EXPECT_EQ(small.arena().reserved_bytes, 0U) << "nothing is kept warm";
}

TEST_F(Domain, participant_of_the_process_is_one) {
  const Participant shared = Participant::shared({.domain = domain.path()});
  EXPECT_EQ(Participant::shared({.domain = domain.path()}).id(), shared.id());
  EXPECT_NE(shared.id(), participant.id());
}

TEST(ALibrary, is_of_this_version) {
  tb_versions versions = TB_VERSIONS_INIT;
  tb_library_versions(&versions);
  EXPECT_EQ(versions.abi, static_cast<std::uint32_t>(TENSORBUS_ABI_VERSION));
  EXPECT_EQ(kVersion, std::to_string(versions.major) + "." + std::to_string(versions.minor) + "." +
                          std::to_string(versions.patch));
}

TEST(AStatus, of_a_newer_library_is_refused) {
  EXPECT_EQ(code_of([] { (void)internal::outcome_of(77); }), Code::kVersionMismatch);
  EXPECT_EQ(code_of([] { internal::require_done(-77); }), Code::kSystem);
}

}  // namespace
}  // namespace tensorbus
