// Loans, and the memory of samples: taken by reference, given back, never mixed up.

#include <gtest/gtest.h>

#include <numeric>

#include "tests/unit/bus/test_support.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class LoanOf : public ::testing::Test {
 protected:
  void connect() { ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone); }
  std::size_t used() { return used_bytes(owner, {&publisher}); }
  bool all_comes_back() {
    return eventually([&] { return used() == 0; });
  }

  const FreshDomain domain;
  const bus::ParticipantRef owner =
      domain.join({.budget_bytes = 64 << 20, .segment_bytes = 1 << 20});
  const bus::ParticipantRef borrower = domain.join();
  bus::Publisher publisher{"topic", {}, owner};
  bus::Subscriber subscriber{"topic", {}, borrower};
};

TEST_F(LoanOf, a_tensor_is_published_by_reference) {
  connect();
  publish_patterns(publisher, 3, 1);
  const auto sample = subscriber.receive(kLong);
  ASSERT_TRUE(sample);
  EXPECT_EQ(seed_of(*sample), 3U);
  EXPECT_EQ(publisher.stats().bytes_copied, 0U);
}

TEST_F(LoanOf, a_foreign_tensor_is_copied_once_for_all_subscribers) {
  connect();
  bus::Subscriber other("topic", {}, borrower);
  ASSERT_EQ(publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
  std::vector<std::uint64_t> own(100);
  write_pattern(own, 4);
  publisher.publish(TensorView::of(own.data(), {100}));
  write_pattern(own, 5);
  EXPECT_EQ(next_seeds(subscriber, 1), Seeds{4});
  EXPECT_EQ(next_seeds(other, 1), Seeds{4});
  EXPECT_EQ(publisher.stats().bytes_copied, 800U);
}

TEST_F(LoanOf, memory_goes_back_when_it_is_dropped) {
  {
    const bus::Loan loan = pattern_loan(publisher, 1, 100'000);
    EXPECT_GE(owner->memory_use().used_bytes, 800'000U);
  }
  EXPECT_EQ(owner->memory_use().used_bytes, 0U);
}

TEST_F(LoanOf, memory_goes_back_when_the_last_reader_lets_go) {
  connect();
  publish_patterns(publisher, 1, 1);
  auto sample = subscriber.receive(kLong);
  ASSERT_TRUE(sample);
  bus::Tensor copy = sample->tensor();
  sample.reset();
  EXPECT_GT(used(), 0U);
  EXPECT_EQ(publisher.stats().bytes_in_flight, used());
  EXPECT_EQ(subscriber.stats().held, 1U);
  EXPECT_EQ(seed_of(copy.as<std::uint64_t>()), 1U);
  copy = bus::Tensor();
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(publisher.stats().bytes_in_flight, 0U);
  EXPECT_EQ(subscriber.stats().held, 0U);
}

TEST_F(LoanOf, what_is_published_to_nobody_is_in_flight_only_if_the_history_keeps_it) {
  bus::Publisher forgets("forgets", {}, owner);
  publish_pattern(forgets, 1);
  EXPECT_EQ(forgets.stats().bytes_in_flight, 0U);
  bus::Publisher keeps("keeps", {.history = 1}, owner);
  publish_pattern(keeps, 1);
  const std::uint64_t one = keeps.stats().bytes_in_flight;
  EXPECT_GT(one, 0U);
  publish_pattern(keeps, 2);
  EXPECT_EQ(keeps.stats().bytes_in_flight, one);
}

TEST_F(LoanOf, memory_is_published_once) {
  connect();
  const bus::Loan loan = pattern_loan(publisher, 1);
  Message message;
  message.tensors.push_back(loan.view());
  EXPECT_EQ(publisher.publish(message).outcome, Outcome::kDone);
  EXPECT_EQ(code_of([&] { publisher.publish(message); }), Code::kInvalidArgument);
  EXPECT_EQ(next_seeds(subscriber, 1), Seeds{1});
  EXPECT_EQ(next_seeds(subscriber, 0), Seeds{});
  EXPECT_EQ(publisher.stats().sent, 1U);
}

TEST_F(LoanOf, another_participant_is_refused_and_can_still_be_published_by_its_own) {
  connect();
  bus::Publisher stranger("topic", {}, borrower);
  bus::Loan loan = pattern_loan(publisher, 6, 100);
  std::string why;
  EXPECT_EQ(test::error_of([&] { stranger.publish(std::move(loan)); }, &why), "InvalidArgument");
  EXPECT_NE(why.find("another participant"), std::string::npos) << why;
  publisher.publish(std::move(loan));
  EXPECT_EQ(next_seeds(subscriber, 1), Seeds{6});
}

TEST_F(LoanOf, a_view_that_begins_at_the_end_is_published_by_reference) {
  connect();
  const bus::Loan loan = publisher.loan(Layout::contiguous(DType::kUInt64, {3}));
  const auto numbers = loan.as<std::uint64_t>();
  std::iota(numbers.begin(), numbers.end(), 1);
  publisher.publish(TensorView{&numbers[2], {DType::kUInt64, {3}, {-1}}});
  const auto sample = subscriber.receive(kLong);
  ASSERT_TRUE(sample);
  const bus::Tensor& tensor = sample->tensor();
  EXPECT_EQ(tensor.strides(), Dims{-1});
  const auto* const first = reinterpret_cast<const std::uint64_t*>(tensor.data());
  EXPECT_EQ(first[0], 3U);
  EXPECT_EQ(first[-2], 1U);
  EXPECT_EQ(publisher.stats().bytes_copied, 0U);
}

TEST_F(LoanOf, a_spent_one_cannot_be_used) {
  bus::Loan loan = pattern_loan(publisher, 1);
  publisher.publish(std::move(loan));
  EXPECT_EQ(code_of([&] { (void)loan.data(); }), Code::kClosed);    // NOLINT
  EXPECT_EQ(code_of([&] { (void)loan.layout(); }), Code::kClosed);  // NOLINT
}

TEST_F(LoanOf, a_closed_publisher_is_refused) {
  bus::Loan loan = pattern_loan(publisher, 1);
  publisher.close();
  EXPECT_EQ(code_of([&] { (void)publisher.loan<float>({1}); }), Code::kClosed);
  EXPECT_EQ(publisher.publish(std::move(loan)).outcome, Outcome::kClosed);
  EXPECT_EQ(seed_of(loan.as<std::uint64_t>()), 1U);  // NOLINT: it is still the caller's
}

TEST_F(LoanOf, an_element_type_is_not_another) {
  const bus::Loan loan = publisher.loan<float>({4});
  EXPECT_EQ(code_of([&] { (void)loan.as<int>(); }), Code::kInvalidArgument);
}

TEST_F(LoanOf, a_publisher_may_outlive_it_or_not) {
  std::optional<bus::Publisher> passing(bus::Publisher("other", {}, owner));
  bus::Loan loan = pattern_loan(*passing, 6);
  passing.reset();
  EXPECT_EQ(seed_of(loan.as<std::uint64_t>()), 6U);
  connect();
  publisher.publish(std::move(loan));  // the arena is the same
  EXPECT_EQ(next_seeds(subscriber, 1), Seeds{6});
  EXPECT_EQ(publisher.stats().bytes_copied, 0U);
}

TEST_F(LoanOf, views_of_one_share_their_memory) {
  connect();
  const bus::Loan loan = publisher.loan<std::uint64_t>({2, 64});
  write_pattern(loan.as<std::uint64_t>().first(64), 1);
  write_pattern(loan.as<std::uint64_t>().last(64), 2);
  Message message;
  const auto* words = reinterpret_cast<const std::uint64_t*>(loan.data());
  message.tensors = {TensorView::of(words, {64}), TensorView::of(words + 64, {64}), loan.view()};
  publisher.publish(message);
  const auto sample = subscriber.receive(kLong);
  ASSERT_TRUE(sample);
  const auto& tensors = sample->tensors();
  ASSERT_EQ(tensors.size(), 3U);
  EXPECT_EQ(seed_of(tensors[0].as<std::uint64_t>()), 1U);
  EXPECT_EQ(seed_of(tensors[1].as<std::uint64_t>()), 2U);
  EXPECT_EQ(tensors[0].data(), tensors[2].data());
  EXPECT_EQ(tensors[1].data() - tensors[0].data(), 512);
  EXPECT_EQ(publisher.stats().bytes_copied, 0U);
}

TEST_F(LoanOf, a_view_beyond_its_end_is_refused) {
  const bus::Loan loan = publisher.loan<std::uint64_t>({64});
  Message message;
  message.tensors.push_back(
      TensorView::of(reinterpret_cast<const std::uint64_t*>(loan.data()), {65}));
  EXPECT_EQ(code_of([&] { publisher.publish(message); }), Code::kInvalidArgument);
  message.tensors = {loan.view()};
  EXPECT_EQ(publisher.publish(message).outcome, Outcome::kDone) << "it is as good as before";
}

TEST_F(LoanOf, of_more_than_the_budget_is_refused_and_the_publisher_goes_on) {
  connect();
  EXPECT_EQ(code_of([&] { (void)publisher.loan<std::uint8_t>({65 << 20}); }), Code::kOutOfMemory);
  const std::vector<std::uint8_t> big(65 << 20);
  EXPECT_EQ(
      code_of([&] { publisher.publish(TensorView::of(big.data(), {std::int64_t{65} << 20})); }),
      Code::kOutOfMemory);
  publish_patterns(publisher, 1, 1);
  EXPECT_EQ(next_seeds(subscriber, 1), Seeds{1});
}

TEST_F(LoanOf, memory_is_waited_for_until_the_caller_gives_up) {
  const bus::Loan all = publisher.loan<std::uint8_t>({60 << 20});
  // A signal that has come already wakes nobody.
  const platform::StopCondition stop(kLong, [] { return true; });
  EXPECT_FALSE(publisher.loan(all.view().layout, Device::host(), stop).has_value());
}

TEST_F(LoanOf, memory_that_subscribers_hold_counts_and_comes_back) {
  connect();
  constexpr std::size_t kWords = 3 << 20;  // 24 MiB
  std::vector<bus::Sample> held;
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    publish_pattern(publisher, seed, kWords);
    auto sample = subscriber.receive(kLong);
    ASSERT_TRUE(sample);
    held.push_back(std::move(*sample));
  }
  EXPECT_EQ(code_of([&] { publish_pattern(publisher, 2, kWords); }), Code::kOutOfMemory);
  EXPECT_EQ(seed_of(held[0]), 0U);
  held.clear();
  // What came back is found without anybody asking for statistics.
  EXPECT_EQ(publish_pattern(publisher, 3, kWords).outcome, Outcome::kDone);
  EXPECT_EQ(next_seeds(subscriber, 1), Seeds{3});
}

TEST_F(LoanOf, many_sizes_are_all_given_back) {
  connect();
  std::vector<bus::Sample> held;
  for (std::uint64_t seed = 1; seed < 300; ++seed) {
    publish_pattern(publisher, seed, 1 + seed * seed % 50'000);
    auto sample = subscriber.receive(kLong);
    ASSERT_TRUE(sample);
    EXPECT_EQ(seed_of(*sample), seed);
    if (seed % 7 == 0) held.push_back(std::move(*sample));
  }
  std::uint64_t expected = 7;
  for (const bus::Sample& sample : held) {
    EXPECT_EQ(seed_of(sample), expected);
    expected += 7;
  }
  held.clear();
  EXPECT_TRUE(all_comes_back());
}

TEST_F(LoanOf, a_received_tensor_outlives_everybody) {
  connect();
  publish_patterns(publisher, 8, 1);
  bus::Tensor tensor;
  {
    const auto sample = subscriber.receive(kLong);
    ASSERT_TRUE(sample);
    tensor = sample->tensor();
  }
  subscriber.close();
  EXPECT_EQ(seed_of(tensor.as<std::uint64_t>()), 8U);
  // Its memory is not given to others.
  for (std::uint64_t seed = 100; seed < 200; ++seed) publish_pattern(publisher, seed);
  EXPECT_EQ(seed_of(tensor.as<std::uint64_t>()), 8U);
  publisher.close();
  EXPECT_EQ(seed_of(tensor.as<std::uint64_t>()), 8U);
  tensor = bus::Tensor();
  EXPECT_TRUE(all_comes_back());
}

TEST(Participants, may_go_before_what_came_from_them) {
  const FreshDomain domain;
  bus::Tensor tensor;
  std::optional<bus::Loan> loan;
  {
    const bus::ParticipantRef owner = domain.join();
    const bus::ParticipantRef borrower = domain.join();
    bus::Publisher publisher("topic", {}, owner);
    bus::Subscriber subscriber("topic", {}, borrower);
    ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
    publish_patterns(publisher, 9, 1);
    tensor = subscriber.receive(kLong)->tensor();
    loan = pattern_loan(publisher, 10);
  }
  EXPECT_TRUE(domain.files().empty());
  EXPECT_EQ(seed_of(tensor.as<std::uint64_t>()), 9U);
  EXPECT_EQ(seed_of(loan->as<std::uint64_t>()), 10U);
}

}  // namespace
}  // namespace tensorbus
