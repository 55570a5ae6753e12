#include "tensorbus/link/ring/owner_link.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "tensorbus/link/ring/borrower_link.hpp"
#include "tests/fakes/test_sockets.hpp"

namespace tensorbus::link {
namespace {

// One link, its owner's end and its borrower's, over a socket pair in one process.
class Link : public ::testing::Test {
 protected:
  Link() { connect({.depth = 4, .max_held = 3}); }

  void connect(LinkLimits limits, bool reliable = false) {
    testing::SocketPair sockets = testing::connected_sockets();
    to_borrower = std::make_shared<Channel>(std::move(sockets.one), [](bool) {});
    connected = std::make_shared<PeerMemory>();
    connected->channel = std::make_shared<Channel>(std::move(sockets.other), [](bool) {});
    connected->wake_page = map_peer_wake_page(page->memfd());
    owner = std::make_unique<OwnerLink>(limits, Waker(connected->wake_page, 0),
                                        std::make_shared<SegmentSender>(to_borrower, arena));
    const Geometry geometry = owner->segment().geometry();
    borrower = std::make_unique<BorrowerLink>(
        1, std::make_shared<const Source>(Source{Id::random(), 1, "topic"}), connected);
    borrower->accept({.link = 1,
                      .slots = geometry.slots,
                      .returns = geometry.returns,
                      .max_held = limits.max_held,
                      .reliable = reliable ? 1U : 0U},
                     platform::duplicate(owner->segment().memfd().get()));
  }

  // Publishes the next sample: a block of its own, which the entry names.
  void push() {
    Entry entry;
    entry.sequence = next++;
    memory::BlockRef block = arena->allocate(256);
    entry.segment = block->segment();
    entry.offset = block->offset();
    dropped += owner->drop_until_room();
    ASSERT_EQ(owner->room(), OwnerLink::Room::kYes);
    OneOrMany<memory::BlockRef> blocks;
    blocks.push_back(std::move(block));
    owner->push(entry, std::make_shared<const PublishedSample>(std::move(blocks)));
  }
  void push(int count) {
    for (int i = 0; i < count; ++i) push();
  }
  Entry pop() {
    Entry entry;
    EXPECT_TRUE(borrower->pop(entry));
    return entry;
  }
  std::size_t blocks() const { return arena->stats().blocks; }

  std::shared_ptr<memory::Arena> arena = memory::Arena::create({});
  std::shared_ptr<WakePage> page = std::make_shared<WakePage>();
  std::shared_ptr<Channel> to_borrower;
  std::shared_ptr<PeerMemory> connected;
  std::unique_ptr<OwnerLink> owner;
  std::unique_ptr<BorrowerLink> borrower;
  std::uint64_t next = 0;
  std::uint32_t dropped = 0;
};

TEST_F(Link, a_lease_holds_its_block_until_it_is_returned) {
  push();
  EXPECT_EQ(blocks(), 1U);
  const Entry entry = pop();
  EXPECT_TRUE(owner->drain());
  EXPECT_EQ(blocks(), 1U);
  borrower->release(entry.token);
  EXPECT_TRUE(owner->drain());
  EXPECT_EQ(blocks(), 0U);
  EXPECT_EQ(owner->outstanding(), 0U);
}

TEST_F(Link, a_full_ring_drops_its_oldest_and_frees_their_blocks) {
  push(10);
  EXPECT_EQ(dropped, 6U);
  EXPECT_EQ(blocks(), 4U);
  for (std::uint64_t sequence = 6; sequence < 9; ++sequence) EXPECT_EQ(pop().sequence, sequence);
}

TEST_F(Link, the_segment_is_sent_once_and_before_the_first_entry) {
  push(3);
  Channel::Received received;
  ASSERT_EQ(connected->channel->receive(received), Channel::State::kMessage);
  EXPECT_EQ(received.as<SegmentMessage>().segment, pop().segment);
  EXPECT_EQ(connected->channel->receive(received), Channel::State::kNothing);
}

TEST_F(Link, a_borrower_that_holds_all_it_may_gets_nothing_more) {
  push(4);
  for (int i = 0; i < 3; ++i) pop();
  push(4);
  EXPECT_FALSE(borrower->ready());
  EXPECT_TRUE(borrower->at_hold_limit());
  EXPECT_LE(owner->outstanding(), 7U);
}

TEST_F(Link, what_nobody_uses_goes_back_when_it_is_settled) {
  push(3);
  for (int i = 0; i < 3; ++i) borrower->release_soon(pop().token);
  EXPECT_EQ(borrower->held(), 0U);
  EXPECT_TRUE(owner->drain());
  EXPECT_EQ(owner->outstanding(), 3U);
  EXPECT_EQ(borrower->settle(), BorrowerLink::Settled::kNoWaiter);
  EXPECT_TRUE(owner->drain());
  EXPECT_EQ(owner->outstanding(), 0U);
  EXPECT_EQ(owner->bad_returns(), 0U);
  EXPECT_EQ(borrower->held(), 0U);
}

TEST_F(Link, a_publisher_that_waits_is_told_apart_by_whether_anything_went_back) {
  using Settled = BorrowerLink::Settled;
  connect({.depth = 4, .max_held = 3}, true);
  push(2);
  pop();
  EXPECT_EQ(borrower->settle(), Settled::kPopped);
  borrower->release_soon(pop().token);
  EXPECT_EQ(borrower->settle(), Settled::kGivenBack);
  push(1);
  pop();
  EXPECT_EQ(borrower->settle(), Settled::kPopped);
}

TEST_F(Link, what_went_back_before_the_last_pop_is_settled_as_given_back) {
  connect({.depth = 4, .max_held = 3}, true);
  push(4);
  for (int i = 0; i < 3; ++i) borrower->release_soon(pop().token);
  pop();  // for which the others went back
  EXPECT_EQ(borrower->settle(), BorrowerLink::Settled::kGivenBack);
}

TEST_F(Link, what_nobody_uses_goes_back_before_more_is_popped_than_may_be_held) {
  push(4);
  for (int i = 0; i < 4; ++i) borrower->release_soon(pop().token);
  EXPECT_TRUE(owner->drain());
  EXPECT_EQ(owner->outstanding(), 1U);
}

TEST_F(Link, what_nobody_uses_comes_back_with_the_death_of_its_borrower) {
  push(3);
  for (int i = 0; i < 2; ++i) borrower->release_soon(pop().token);
  owner->take_all_back();
  EXPECT_EQ(blocks(), 0U);
}

TEST_F(Link, recall_takes_back_what_was_not_popped) {
  push(3);
  pop();
  owner->recall();
  EXPECT_EQ(blocks(), 1U);
  EXPECT_EQ(owner->outstanding(), 1U);
}

TEST_F(Link, death_takes_everything_back) {
  push(3);
  pop();
  owner->take_all_back();
  EXPECT_EQ(blocks(), 0U);
}

TEST_F(Link, a_lease_returned_twice_is_counted_and_harms_nobody) {
  push(2);
  const Entry entry = pop();
  borrower->release(entry.token);
  borrower->release(entry.token);
  EXPECT_TRUE(owner->drain());
  EXPECT_EQ(owner->bad_returns(), 1U);
  EXPECT_EQ(blocks(), 1U);
}

// A borrower can read the token of an entry that it has not popped.
TEST_F(Link, a_lease_returned_without_being_popped_does_not_bring_the_owner_down) {
  push(4);
  LinkSegment forged(platform::duplicate(owner->segment().memfd().get()),
                     owner->segment().geometry());
  for (Slot& slot : forged.slots()) borrower->release(slot.words[2].load());
  EXPECT_TRUE(owner->drain());
  push(8);
  owner->recall();
  EXPECT_EQ(blocks(), 0U);
  EXPECT_EQ(owner->outstanding(), 0U);
}

TEST_F(Link, a_return_ring_of_garbage_costs_its_own_link_only) {
  push(4);
  for (int i = 0; i < 3; ++i) pop();
  *owner->segment().return_tail() = 12345;
  EXPECT_FALSE(owner->drain());
  push(4);
  owner->drop_until_room();
  owner->take_all_back();
  EXPECT_EQ(blocks(), 0U);
}

TEST_F(Link, slots_that_a_borrower_wrote_over_cost_its_own_link_only) {
  for (int round = 0; round < 100; ++round) {
    for (Slot& slot : owner->segment().slots()) slot.state = static_cast<std::uint64_t>(round) * 7;
    (void)owner->drop_until_room();
    if (owner->room() == OwnerLink::Room::kYes) push();
  }
  EXPECT_LE(owner->outstanding(), 7U);
  owner->take_all_back();
  EXPECT_EQ(blocks(), 0U);
}

TEST_F(Link, the_last_reference_gone_says_done) {
  borrower.reset();
  Channel::Received received;
  ASSERT_EQ(to_borrower->receive(received), Channel::State::kMessage);
  EXPECT_EQ(received.header.type, ControlType::kDone);
}

TEST_F(Link, an_acceptance_that_makes_no_sense_is_refused) {
  const Geometry geometry = owner->segment().geometry();
  const Accepted good{
      .link = 1, .slots = geometry.slots, .returns = geometry.returns, .max_held = 3};
  const auto refused = [&](auto spoil) {
    Accepted accepted = good;
    spoil(accepted);
    BorrowerLink link(2, borrower->source(), connected);
    EXPECT_THROW(link.accept(accepted, platform::duplicate(owner->segment().memfd().get())), Error);
  };
  refused([](Accepted& accepted) { accepted.max_held = 0; });
  refused([](Accepted& accepted) { accepted.max_held = kMaxHeld + 1; });
  refused([](Accepted& accepted) { accepted.wake_slot = kWakeSlots; });
  refused([](Accepted& accepted) { accepted.slots = 3; });
  refused([](Accepted& accepted) { accepted.returns = 1 << 10; });
  EXPECT_THROW(borrower->accept(good, platform::duplicate(owner->segment().memfd().get())), Error);
}

}  // namespace
}  // namespace tensorbus::link
