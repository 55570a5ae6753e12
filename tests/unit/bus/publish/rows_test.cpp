// Many small messages at once: the rows of an array, published and received, are messages as any
// others are.

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

using Row = std::array<float, 3>;
constexpr std::int64_t kFloats = 3;

Row row_of(std::uint64_t number) {
  const auto first = static_cast<float>(number);
  return {first, first + 0.25F, first + 0.5F};
}

Layout rows_layout(std::size_t count) {
  return Layout::contiguous(DType::kFloat32, {static_cast<std::int64_t>(count), kFloats});
}

class Rows : public ::testing::Test {
 protected:
  void connect(const PublisherOptions& publishing, const SubscriberOptions& receiving = {}) {
    publisher.emplace("topic", publishing, owner);
    subscriber.emplace("topic", receiving, borrower);
    ASSERT_EQ(publisher->wait_for_subscribers(1, kLong), Outcome::kDone);
    ASSERT_EQ(subscriber->wait_for_publishers(1, kLong), Outcome::kDone);
  }
  static PublishedMany publish_by(bus::Publisher& by, std::uint64_t first, std::size_t many,
                                  std::chrono::nanoseconds timeout = kLong) {
    std::vector<Row> rows;
    for (std::uint64_t number = first; number < first + many; ++number)
      rows.push_back(row_of(number));
    return by.publish_many({rows.data(), rows_layout(many)}, timeout);
  }
  PublishedMany publish(std::uint64_t first, std::size_t many,
                        std::chrono::nanoseconds timeout = kLong) {
    return publish_by(*publisher, first, many, timeout);
  }
  Outcome receive(std::size_t most = 64, std::chrono::nanoseconds timeout = kLong) {
    received.resize(most);
    return subscriber->receive_into(received.data(), rows_layout(most), count, timeout);
  }
  // Returns true if the rows that came last have these numbers.
  bool has(std::uint64_t first, std::size_t expected) const {
    if (count != expected) return false;
    for (std::size_t i = 0; i < count; ++i)
      if (received[i] != row_of(first + i)) return false;
    return true;
  }
  static bool is_row(const bus::Sample& sample, std::uint64_t number) {
    const auto floats = sample.tensor().as<float>();
    const Row row = row_of(number);
    return std::equal(floats.begin(), floats.end(), row.begin(), row.end());
  }

  const FreshDomain domain;
  const bus::ParticipantRef owner = domain.join();
  const bus::ParticipantRef borrower = domain.join();
  std::optional<bus::Publisher> publisher;
  std::optional<bus::Subscriber> subscriber;
  std::vector<Row> received;
  std::size_t count = 0;
};

TEST_F(Rows, arrive_as_messages_of_their_own) {
  connect({.depth = 64});
  const PublishedMany done = publish(0, 5);
  EXPECT_EQ(done.outcome, Outcome::kDone);
  EXPECT_EQ(done.count, 5U);
  EXPECT_EQ(done.sequence, 4U);
  EXPECT_EQ(done.subscribers, 1U);
  for (std::uint64_t number = 0; number < 5; ++number) {
    const auto sample = subscriber->receive(kLong);
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->header().sequence, number);
    EXPECT_EQ(sample->tensor().shape(), Dims({kFloats}));
    EXPECT_TRUE(is_row(*sample, number));
  }
  EXPECT_EQ(publisher->stats().sent, 5U);
  EXPECT_EQ(publisher->stats().delivered, 5U);
  EXPECT_EQ(publisher->stats().bytes_copied, 5 * sizeof(Row));
}

TEST_F(Rows, are_received_into_an_array_whoever_published_them_one_by_one) {
  connect({.depth = 64});
  publish(0, 5);
  const Row lone = row_of(5);
  publisher->publish(TensorView::of(lone.data(), {kFloats}));
  bus::Loan loan = publisher->loan<float>({kFloats});
  std::ranges::copy(row_of(6), loan.as<float>().begin());
  publisher->publish(std::move(loan));
  ASSERT_EQ(receive(), Outcome::kDone);
  EXPECT_TRUE(has(0, 7));
  EXPECT_EQ(subscriber->stats().received, 7U);
  EXPECT_EQ(subscriber->stats().held, 0U);
  EXPECT_EQ(receive(64, 0ns), Outcome::kTimedOut);
  EXPECT_EQ(count, 0U);
}

TEST_F(Rows, are_dropped_as_others_are) {
  connect({.depth = 4});
  EXPECT_EQ(publish(0, 10).count, 10U);
  EXPECT_EQ(publisher->stats().dropped_depth, 6U);
  ASSERT_EQ(receive(), Outcome::kDone);
  EXPECT_TRUE(has(6, 4));
  EXPECT_EQ(subscriber->stats().missed, 6U);
  EXPECT_EQ(used_bytes(owner, {&*publisher}), 0U);
}

TEST_F(Rows, are_counted_that_a_full_reader_does_not_get) {
  connect({.depth = 2}, {.max_held = 1});
  publish(0, 2);
  const auto held = subscriber->receive(kLong);
  ASSERT_TRUE(held);
  EXPECT_EQ(publish(2, 10).subscribers, 1U);
  EXPECT_EQ(publisher->stats().delivered + publisher->stats().dropped_held, 12U);
  EXPECT_TRUE(is_row(*held, 0));
}

TEST_F(Rows, of_a_reliable_publisher_wait_for_room) {
  connect({.depth = 4, .reliable = true});
  constexpr std::uint64_t kRows = 3000;
  PublishedMany done;
  std::thread thread([&] { done = publish(0, kRows); });
  std::uint64_t next = 0;
  while (next < kRows && receive(3) == Outcome::kDone) {
    EXPECT_TRUE(has(next, count));
    next += count;
  }
  thread.join();
  EXPECT_EQ(next, kRows);
  EXPECT_EQ(done.count, kRows);
  EXPECT_EQ(subscriber->stats().missed, 0U);
  EXPECT_EQ(publisher->stats().bad_returns, 0U);
  EXPECT_EQ(used_bytes(owner, {&*publisher}), 0U);
}

TEST_F(Rows, that_found_no_room_in_time_were_given_to_nobody) {
  connect({.depth = 4, .reliable = true});
  bus::Subscriber roomy("topic", {.depth = 64}, borrower);
  ASSERT_EQ(publisher->wait_for_subscribers(2, kLong), Outcome::kDone);
  const PublishedMany done = publish(0, 10, 10ms);
  EXPECT_EQ(done.outcome, Outcome::kTimedOut);
  EXPECT_EQ(done.count, 4U);
  EXPECT_EQ(done.sequence, 3U);
  EXPECT_EQ(publisher->stats().timed_out, 1U);
  ASSERT_EQ(receive(), Outcome::kDone);
  EXPECT_TRUE(has(0, 4));
  EXPECT_EQ(publish(4, 1).sequence, 4U);
  ASSERT_EQ(roomy.receive_into(received.data(), rows_layout(64), count, kLong), Outcome::kDone);
  EXPECT_TRUE(has(0, 5));
}

TEST_F(Rows, are_history_for_those_who_come_later) {
  publisher.emplace("topic", PublisherOptions{.depth = 8, .history = 3}, owner);
  EXPECT_EQ(publish(0, 10).subscribers, 0U);
  subscriber.emplace("topic", SubscriberOptions{}, borrower);
  ASSERT_EQ(receive(), Outcome::kDone);
  EXPECT_TRUE(has(7, 3));
  EXPECT_EQ(subscriber->stats().missed, 0U);
}

TEST_F(Rows, come_to_all_subscribers_and_of_all_publishers) {
  connect({.depth = 64, .reliable = true});
  bus::Publisher second("topic", {.depth = 64}, owner);
  bus::Subscriber other("topic", {}, owner);
  ASSERT_EQ(second.wait_for_subscribers(2, kLong), Outcome::kDone);
  ASSERT_EQ(publisher->wait_for_subscribers(2, kLong), Outcome::kDone);
  EXPECT_EQ(publish(0, 20).subscribers, 2U);
  EXPECT_EQ(publish_by(second, 100, 20).subscribers, 2U);
  for (bus::Subscriber* const each : {&*subscriber, &other}) {
    std::vector<Row> rows(40);
    std::size_t all = 0;
    while (all < rows.size()) {
      ASSERT_EQ(each->receive_into(rows.data() + all, rows_layout(rows.size() - all), count, kLong),
                Outcome::kDone);
      all += count;
    }
    std::uint64_t low = 0;
    std::uint64_t high = 100;
    for (const Row& row : rows) EXPECT_TRUE(row == row_of(row[0] < 100 ? low++ : high++));
    EXPECT_EQ(low, 20U);
    EXPECT_EQ(high, 120U);
  }
}

TEST_F(Rows, share_their_memory_and_each_has_its_part_of_it) {
  connect({.depth = 64});
  publish(0, 10);
  auto third = [&] {
    (void)subscriber->receive(kLong);
    (void)subscriber->receive(kLong);
    return subscriber->receive(kLong);
  }();
  ASSERT_EQ(receive(), Outcome::kDone);
  EXPECT_TRUE(has(3, 7));
  const std::size_t used = used_bytes(owner, {&*publisher});
  EXPECT_GE(used, 10 * sizeof(Row));
  publish(100, 10);  // into other memory
  EXPECT_TRUE(is_row(*third, 2));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(third->tensor().data()) % 64, 0U);
  third.reset();
  ASSERT_EQ(receive(), Outcome::kDone);
  EXPECT_EQ(used_bytes(owner, {&*publisher}), 0U);
}

TEST_F(Rows, that_were_received_are_handed_on) {
  connect({.depth = 64});
  publish(0, 3);
  bus::Publisher onward("onward", {.depth = 8}, borrower);
  bus::Subscriber last("onward", {}, owner);
  ASSERT_EQ(onward.wait_for_subscribers(1, kLong), Outcome::kDone);
  (void)subscriber->receive(kLong);
  {
    const auto second = subscriber->receive(kLong);
    ASSERT_TRUE(second);
    onward.publish(TensorView::of(second->tensor().as<float>().data(), {kFloats}));
    EXPECT_EQ(onward.stats().bytes_copied, 0U);
  }
  EXPECT_EQ(last.receive_into(received.emplace_back().data(), rows_layout(1), count, kLong),
            Outcome::kDone);
  EXPECT_EQ(received.front(), row_of(1));
}

TEST_F(Rows, of_another_kind_end_a_batch_and_receive_returns_them) {
  connect({.depth = 64});
  publish(0, 3);
  publisher->publish(Value(std::int64_t{7}), {});
  const std::array<double, 3> doubles{1, 2, 3};
  publisher->publish(TensorView::of(doubles.data(), {kFloats}));
  publish(3, 2);
  ASSERT_EQ(receive(), Outcome::kDone);
  EXPECT_TRUE(has(0, 3));
  EXPECT_TRUE(subscriber->ready());
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(code_of([&] { (void)receive(); }), Code::kInvalidArgument);
    EXPECT_EQ(count, 0U);
  }
  auto other = subscriber->receive(kLong);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->fields().as<std::int64_t>(), 7);
  EXPECT_EQ(code_of([&] { (void)receive(); }), Code::kInvalidArgument);
  other = subscriber->receive(kLong);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->tensor().as<double>()[2], 3);
  ASSERT_EQ(receive(), Outcome::kDone);
  EXPECT_TRUE(has(3, 2));
  other.reset();
  EXPECT_EQ(subscriber->stats().received, 7U);
  EXPECT_EQ(subscriber->stats().missed, 0U);
  EXPECT_EQ(used_bytes(owner, {&*publisher}), 0U);
}

TEST_F(Rows, that_were_refused_go_back_when_the_subscriber_closes) {
  connect({.depth = 64});
  const std::array<double, 3> doubles{1, 2, 3};
  publisher->publish(TensorView::of(doubles.data(), {kFloats}));
  EXPECT_EQ(code_of([&] { (void)receive(); }), Code::kInvalidArgument);
  subscriber->close();
  EXPECT_EQ(receive(), Outcome::kClosed);
  EXPECT_TRUE(eventually([&] { return used_bytes(owner, {&*publisher}) == 0; }));
  EXPECT_EQ(publisher->stats().bad_returns, 0U);
}

TEST_F(Rows, may_be_large_or_empty_or_far_apart) {
  connect({.depth = 64});
  std::vector<float> grid(6 * 2048);
  std::iota(grid.begin(), grid.end(), 0.0F);
  const auto view = [&](Dims shape, Dims strides) {
    return TensorView{grid.data(), {DType::kFloat32, std::move(shape), std::move(strides)}};
  };
  EXPECT_EQ(publisher->publish_many(view({6, 2048}, {2048, 1})).count, 6U);  // 8 KiB each
  EXPECT_EQ(publisher->publish_many(view({2, 3}, {1, 2})).count, 2U);        // transposed
  EXPECT_EQ(publisher->publish_many(view({2, 0}, {0, 1})).count, 2U);
  EXPECT_EQ(publisher->publish_many(view({0, 3}, {3, 1})).count, 0U);
  EXPECT_EQ(publisher->publish_many(view({2}, {5})).count, 2U);  // of no dimension
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_EQ(subscriber->receive(kLong)->tensor().as<float>()[1], i * 2048 + 1);
  std::array<float, 3> row{};
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(subscriber->receive_into(row.data(), rows_layout(1), count, kLong), Outcome::kDone);
    EXPECT_EQ(row[2], i + 4);
  }
  for (int i = 0; i < 2; ++i) EXPECT_EQ(subscriber->receive(kLong)->tensor().shape(), Dims({0}));
  std::array<float, 2> scalars{};
  ASSERT_EQ(subscriber->receive_into(scalars.data(), Layout::contiguous(DType::kFloat32, {2}),
                                     count, kLong),
            Outcome::kDone);
  EXPECT_EQ(scalars[1], 5);
}

TEST_F(Rows, of_an_isolated_publisher_lie_in_its_own_segments) {
  connect({.depth = 64, .isolated = true});
  publish(0, 5);
  ASSERT_EQ(receive(), Outcome::kDone);
  EXPECT_TRUE(has(0, 5));
  publisher->close();
  EXPECT_EQ(publish(0, 5).outcome, Outcome::kClosed);
}

TEST_F(Rows, are_refused_that_are_none) {
  connect({.depth = 64});
  const float scalar = 1;
  EXPECT_EQ(code_of([&] {
              (void)publisher->publish_many({&scalar, Layout::contiguous(DType::kFloat32, {})});
            }),
            Code::kInvalidArgument);
  std::array<float, 12> room{};
  const auto into = [&](const Layout& layout) {
    return code_of([&] { (void)subscriber->receive_into(room.data(), layout, count, 0ns); });
  };
  EXPECT_EQ(into(Layout::contiguous(DType::kFloat32, {})), Code::kInvalidArgument);
  EXPECT_EQ(into(Layout::contiguous(DType::kFloat32, {0, 3})), Code::kInvalidArgument);
  EXPECT_EQ(into({DType::kFloat32, {2, 3}, {6, 1}}), Code::kInvalidArgument);
  EXPECT_EQ(into(rows_layout(4)), std::nullopt);
}

TEST_F(Rows, of_two_threads_do_not_mix_within_a_chunk_that_has_room) {
  connect({.depth = 1024, .reliable = true});
  std::thread thread([&] { publish(0, 200); });
  publish(1000, 200);
  thread.join();
  std::uint64_t low = 0;
  std::uint64_t high = 1000;
  while (low + high < 1400) {
    ASSERT_EQ(receive(), Outcome::kDone);
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_TRUE(received[i] == row_of(received[i][0] < 1000 ? low++ : high++));
  }
  EXPECT_EQ(subscriber->stats().missed, 0U);
}

}  // namespace
}  // namespace tensorbus
