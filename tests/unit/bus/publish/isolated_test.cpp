// What a subscriber can read of its publisher's process.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <future>
#include <map>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/bus/share.hpp"
#include "tensorbus/platform/files/mapping.hpp"
#include "tests/fakes/fake_peer.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::bus {
namespace {

using namespace tensorbus::testing;
using link::ControlType;
using testing::FakePeer;

constexpr std::uint64_t kSecret = 0x5ec2e75ec2e75ec2;

// A subscriber that looks at all it was handed.
class Reader {
 public:
  Reader(const FreshDomain& domain, const bus::ParticipantRef& owner, std::uint32_t publisher)
      : peer_(Domain(domain.path()).connect(owner->id()).socket) {
    peer_.say_hello();
    EXPECT_EQ(peer_.next(), ControlType::kHello);
    peer_.channel.send(link::Subscribe{
        .link = 1, .publisher = publisher, .depth = 8, .max_held = 8, .topic = "topic"});
    auto told = peer_.next();
    for (; told == ControlType::kSegment; told = peer_.next()) map_segment();  // of the history
    EXPECT_EQ(told, ControlType::kAccepted);
  }
  void get_segments(std::size_t count) {
    while (segments_.size() < count) {
      ASSERT_EQ(peer_.next(), ControlType::kSegment);
      map_segment();
    }
  }
  bool finds(std::uint64_t word) const {
    return std::ranges::any_of(segments_, [word](const auto& segment) {
      const platform::Mapping& mapping = segment.second;
      const std::span words(reinterpret_cast<const std::uint64_t*>(mapping.data()),
                            mapping.size() / sizeof word);
      return std::ranges::find(words, word) != words.end();
    });
  }
  bool was_told_nothing_more() {
    return peer_.channel.receive(peer_.received) == link::Channel::State::kNothing;
  }

 private:
  void map_segment() {
    const auto said = peer_.received.as<link::SegmentMessage>();
    segments_[said.segment] = platform::Mapping(peer_.received.take_fd().get(), said.bytes,
                                                platform::Mapping::Access::kRead);
  }

  FakePeer peer_;
  std::map<memory::SegmentId, platform::Mapping> segments_;
};

class Isolated : public ::testing::Test {
 protected:
  static void fill(bus::Loan& loan, std::uint64_t word) {
    std::ranges::fill(loan.as<std::uint64_t>(), word);
  }

  const FreshDomain fresh;
  const bus::ParticipantRef owner = fresh.join();
  bus::Publisher publisher{"topic", {.isolated = true}, owner};  // its number is 1
  bus::Publisher open{"topic", {}, owner};
};

TEST_F(Isolated, publishers_hand_out_no_segment_with_bytes_of_others) {
  bus::Loan secret = open.loan<std::uint64_t>({512});
  fill(secret, kSecret);
  Reader reader(fresh, owner, 1);
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  const std::vector<std::uint64_t> words(512, 1);
  publisher.publish(TensorView::of(words.data(), {512}));
  bus::Loan own = publisher.loan<std::uint64_t>({512});
  fill(own, 2);
  const Published by_loan = publisher.publish(std::move(own));
  EXPECT_EQ(by_loan.subscribers, 1U);
  bus::Loan foreign = open.loan<std::uint64_t>({512});
  fill(foreign, 3);
  const std::uint64_t before = publisher.stats().bytes_copied;
  EXPECT_EQ(publisher.publish(std::move(foreign)).outcome, Outcome::kDone);
  bus::Loan standing = empty(Layout::contiguous(DType::kUInt64, {512}), false, owner);
  fill(standing, 4);
  publisher.publish(standing.view());
  EXPECT_EQ(publisher.stats().bytes_copied, before + 2 * 512 * sizeof(std::uint64_t));
  reader.get_segments(1);
  for (const std::uint64_t word : {1, 2, 3, 4}) EXPECT_TRUE(reader.finds(word)) << word;
  EXPECT_FALSE(reader.finds(kSecret));
  EXPECT_TRUE(reader.was_told_nothing_more());

  Reader of_the_other(fresh, owner, 2);
  ASSERT_EQ(open.wait_for_subscribers(1, kLong), Outcome::kDone);
  open.publish(TensorView::of(words.data(), {512}));
  of_the_other.get_segments(1);
  EXPECT_TRUE(of_the_other.finds(kSecret)) << "the test can fail";
}

// The history, a message of many tensors, and a descriptor that does not fit into an entry.
TEST_F(Isolated, publishers_history_and_messages_lie_in_their_own_segments) {
  bus::Publisher kept("topic", {.history = 4, .isolated = true}, owner);  // its number is 3
  bus::Loan secret = open.loan<std::uint64_t>({512});
  fill(secret, kSecret);
  bus::Loan foreign = open.loan<std::uint64_t>({512});
  fill(foreign, 1);
  bus::Loan own = kept.loan<std::uint64_t>({512});
  fill(own, 2);
  const std::vector<std::uint64_t> words(512, 3);
  const TensorView plain = TensorView::of(words.data(), {512});
  const std::vector<TensorView> tensors{foreign.view(), own.view(), plain, plain, plain};
  const Published published = kept.publish(Value(Value::Map{{"name", Value("value")}}), tensors);
  EXPECT_EQ(published.outcome, Outcome::kDone);
  Reader reader(fresh, owner, 3);
  reader.get_segments(1);
  for (const std::uint64_t word : {1, 2, 3}) EXPECT_TRUE(reader.finds(word)) << word;
  EXPECT_FALSE(reader.finds(kSecret));
  EXPECT_TRUE(reader.was_told_nothing_more());
}

TEST_F(Isolated, publishers_do_not_share_segments_with_each_other) {
  bus::Publisher second("topic", {.reliable = true, .shared = true, .isolated = true}, owner);
  bus::Publisher third("topic", {.shared = true, .isolated = true}, owner);
  bus::Loan secret = second.loan<std::uint64_t>({512});
  fill(secret, kSecret);
  {
    const bus::Loan gone = publisher.loan<std::uint64_t>({512});
  }  // its block rests
  bus::Loan here = third.loan<std::uint64_t>({512});
  fill(here, 9);
  Reader reader(fresh, owner, 4);
  ASSERT_EQ(third.wait_for_subscribers(1, kLong), Outcome::kDone);
  EXPECT_EQ(third.publish(std::move(here)).subscribers, 1U);
  bus::Loan of_a_shared_one = second.loan<std::uint64_t>({512});
  fill(of_a_shared_one, 8);
  EXPECT_EQ(third.publish(std::move(of_a_shared_one)).subscribers, 1U);
  reader.get_segments(1);
  EXPECT_TRUE(reader.finds(9));
  EXPECT_TRUE(reader.finds(8));
  EXPECT_FALSE(reader.finds(kSecret));
  EXPECT_TRUE(reader.was_told_nothing_more());
  EXPECT_EQ(owner->memory_use().segments, 3U) << "one for each publisher that took memory";
}

TEST_F(Isolated, publishers_that_are_closed_lend_no_memory) {
  publisher.close();
  EXPECT_EQ(test::error_of([&] { (void)publisher.loan<std::uint64_t>({512}); }), "Closed");
  const std::vector<std::uint64_t> words(512, 1);
  EXPECT_EQ(publisher.publish(TensorView::of(words.data(), {512})).outcome, Outcome::kClosed);
  EXPECT_EQ(owner->memory_use().segments, 0U);
}

TEST_F(Isolated, publishers_may_be_closed_by_one_thread_while_another_publishes) {
  const std::vector<std::uint64_t> words(16384, 1);
  for (int i = 0; i < 100; ++i) {
    bus::Publisher one("short", {.isolated = true}, owner);
    auto last = std::async(std::launch::async, [&] {
      Outcome outcome = Outcome::kDone;
      while (outcome == Outcome::kDone)
        outcome = one.publish(TensorView::of(words.data(), {16384})).outcome;
      return outcome;
    });
    while (one.stats().sent == 0) std::this_thread::yield();
    one.close();
    EXPECT_EQ(last.get(), Outcome::kClosed);
  }
  EXPECT_EQ(owner->memory_use().segments, 0U);
}

TEST_F(Isolated, publishers_memory_is_not_shared_by_reference) {
  bus::Publisher written("topic", {.shared = true, .isolated = true}, owner);
  const bus::Loan loan = written.loan<std::uint64_t>({512});
  EXPECT_FALSE(is_shared(loan.view().data, 512, owner));
  const bus::Loan memory = empty(Layout::contiguous(DType::kUInt64, {512}), true, owner);
  EXPECT_TRUE(is_shared(memory.view().data, 512, owner));
}

TEST_F(Isolated, publishers_copy_what_they_received) {
  const bus::ParticipantRef other = fresh.join();
  bus::Publisher elsewhere("received", {}, other);
  bus::Subscriber subscriber("received", {}, owner);
  ASSERT_EQ(elsewhere.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_patterns(elsewhere, 5, 1);
  const auto sample = subscriber.receive(kLong);
  ASSERT_TRUE(sample);
  bus::Subscriber here("topic", {}, other);
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  publisher.publish(TensorView::of(sample->tensor().as<std::uint64_t>().data(), {64}));
  EXPECT_GT(publisher.stats().bytes_copied, 0U);
  EXPECT_EQ(next_seeds(here, 1), Seeds{5});
}

TEST_F(Isolated, publishers_loans_are_copied_by_others) {
  bus::Loan secret = publisher.loan<std::uint64_t>({512});
  fill(secret, kSecret);
  bus::Loan handed = publisher.loan<std::uint64_t>({512});
  fill(handed, 7);
  Reader reader(fresh, owner, 2);
  ASSERT_EQ(open.wait_for_subscribers(1, kLong), Outcome::kDone);
  EXPECT_EQ(open.publish(std::move(handed)).outcome, Outcome::kDone);
  reader.get_segments(1);
  EXPECT_TRUE(reader.finds(7));
  EXPECT_FALSE(reader.finds(kSecret));
}

TEST_F(Isolated, publishers_leave_no_segments_when_the_last_sample_has_gone) {
  const bus::ParticipantRef other = fresh.join();
  const std::size_t before = owner->memory_use().segments;
  for (int i = 0; i < 20; ++i) {
    bus::Publisher one("short", {.isolated = true}, owner);
    bus::Subscriber subscriber("short", {}, other);
    ASSERT_EQ(one.wait_for_subscribers(1, kLong), Outcome::kDone);
    publish_patterns(one, 6, 1);
    const auto sample = subscriber.receive(kLong);
    ASSERT_TRUE(sample);
    one.close();
    EXPECT_EQ(seed_of(*sample), 6U);
  }
  EXPECT_TRUE(eventually([&] { return owner->memory_use().segments == before; }));
}

}  // namespace
}  // namespace tensorbus::bus
