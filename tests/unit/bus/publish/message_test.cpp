// What a message may hold, and that it arrives as it was.

#include <gtest/gtest.h>

#include <numeric>

#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class MessageOf : public ::testing::Test {
 protected:
  MessageOf() { EXPECT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone); }

  // The message as it arrives.
  bus::Sample crossed(const Message& message) {
    EXPECT_EQ(publisher.publish(message).outcome, Outcome::kDone);
    auto sample = subscriber.receive(kLong);
    EXPECT_TRUE(sample);
    return sample ? std::move(*sample) : bus::Sample();
  }
  bus::Sample crossed(const TensorView& tensor) {
    Message message;
    message.tensors.push_back(tensor);
    return crossed(message);
  }
  // Element (i, j) of a matrix that may have any strides.
  static int at(const bus::Tensor& tensor, std::int64_t i, std::int64_t j) {
    const auto* first = reinterpret_cast<const int*>(tensor.data());
    return first[i * tensor.strides()[0] + j * tensor.strides()[1]];
  }

  const FreshDomain domain;
  const bus::ParticipantRef owner = domain.join({.segment_bytes = 1 << 20});
  const bus::ParticipantRef borrower = domain.join();
  bus::Publisher publisher{"topic", {.depth = 4}, owner};
  bus::Subscriber subscriber{"topic", {}, borrower};
};

TEST_F(MessageOf, fields_alone_ride_in_the_queue) {
  const Value fields = Value::Map{{"id", 7}, {"name", "left"}};
  const auto bytes = fields.encode();
  Message message;
  message.fields = bytes;
  message.fingerprint = 0x1234;
  const bus::Sample sample = crossed(message);
  EXPECT_EQ(sample.fields(), fields);
  EXPECT_EQ(sample.header().fingerprint, 0x1234U);
  EXPECT_TRUE(sample.tensors().empty());
  EXPECT_EQ(owner->memory_use().blocks, 0U) << "nothing of it is in the arena";
}

TEST_F(MessageOf, nothing_at_all_arrives_too) {
  const bus::Sample sample = crossed(Message());
  EXPECT_TRUE(sample.tensors().empty());
  EXPECT_EQ(sample.fields(), Value());
}

TEST_F(MessageOf, large_fields_travel_beside_the_tensors) {
  Value::List list;
  for (int i = 0; i < 50'000; ++i) list.emplace_back(i);
  const Value fields = list;
  const auto bytes = fields.encode();
  std::vector<std::uint64_t> words(10);
  write_pattern(words, 1);
  Message message;
  message.fields = bytes;
  message.tensors.push_back(TensorView::of(words.data(), {10}));
  const bus::Sample sample = crossed(message);
  EXPECT_EQ(sample.fields(), fields);
  EXPECT_EQ(seed_of(sample), 1U);
}

TEST_F(MessageOf, an_origin_arrives_as_it_was) {
  Message message;
  message.origin = Origin{Id::random(), Id::random(), 12};
  EXPECT_EQ(crossed(message).header().origin, message.origin);
}

TEST_F(MessageOf, a_transposed_matrix_stays_transposed) {
  std::vector<int> numbers(12);
  std::iota(numbers.begin(), numbers.end(), 0);
  const bus::Sample sample = crossed(TensorView{numbers.data(), {DType::kInt32, {4, 3}, {1, 4}}});
  const bus::Tensor& tensor = sample.tensor();
  EXPECT_EQ(tensor.strides(), (Dims{1, 4}));
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 3; ++j) EXPECT_EQ(at(tensor, i, j), i + 4 * j);
  EXPECT_EQ(code_of([&] { (void)tensor.as<int>(); }), Code::kInvalidArgument);
}

TEST_F(MessageOf, negative_strides_keep_their_order) {
  std::vector<int> numbers(12);
  std::iota(numbers.begin(), numbers.end(), 0);
  const Layout flipped{DType::kInt32, {4, 3}, {-3, -1}};
  const bus::Sample sample = crossed(TensorView{numbers.data() + 11, flipped});
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 3; ++j) EXPECT_EQ(at(sample.tensor(), i, j), 11 - 3 * i - j);
}

TEST_F(MessageOf, a_column_with_small_gaps_keeps_them) {
  std::vector<int> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 0);
  const bus::Sample sample =
      crossed(TensorView{numbers.data(), {DType::kInt32, {10, 1}, {100, 1}}});
  EXPECT_EQ(sample.tensor().strides(), (Dims{100, 1}));
  EXPECT_EQ(publisher.stats().bytes_copied, 40U);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(at(sample.tensor(), i, 0), 100 * i);
}

TEST_F(MessageOf, a_column_with_large_gaps_is_packed) {
  std::vector<int> numbers(100'000);
  std::iota(numbers.begin(), numbers.end(), 0);
  const bus::Sample sample =
      crossed(TensorView{numbers.data(), {DType::kInt32, {100, 1}, {1000, 1}}});
  EXPECT_EQ(sample.tensor().strides(), (Dims{1, 1}));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(at(sample.tensor(), i, 0), 1000 * i);
}

TEST_F(MessageOf, a_broadcast_row_stays_one_row) {
  const std::vector<int> row{1, 2, 3};
  const bus::Sample sample = crossed(TensorView{row.data(), {DType::kInt32, {1000, 3}, {0, 1}}});
  EXPECT_EQ(at(sample.tensor(), 999, 2), 3);
  EXPECT_EQ(sample.tensor().shape(), (Dims{1000, 3}));
  EXPECT_EQ(publisher.stats().bytes_copied, 12U);
}

TEST_F(MessageOf, a_loan_with_strides_travels_by_reference) {
  const bus::Loan loan = publisher.loan({DType::kInt32, {3, 4}, {-4, 1}});
  auto* first = reinterpret_cast<int*>(loan.data());
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j) first[-4 * i + j] = 10 * i + j;
  const bus::Sample sample = crossed(loan.view());
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j) EXPECT_EQ(at(sample.tensor(), i, j), 10 * i + j);
  EXPECT_EQ(publisher.stats().bytes_copied, 0U);
}

TEST_F(MessageOf, tensors_without_elements_keep_their_shape) {
  const bus::Sample empty =
      crossed(TensorView{nullptr, Layout::contiguous(DType::kFloat32, {3, 0, 2})});
  EXPECT_EQ(empty.tensor().shape(), (Dims{3, 0, 2}));
  EXPECT_TRUE(empty.tensor().as<float>().empty());
  const bus::Loan loan = publisher.loan<float>({0});
  EXPECT_EQ(crossed(loan.view()).tensor().shape(), Dims{0});
}

TEST_F(MessageOf, a_single_number_has_no_dimensions) {
  const double number = 2.5;
  const bus::Sample sample = crossed(TensorView::of(&number, {}));
  EXPECT_EQ(sample.tensor().shape(), Dims{});
  EXPECT_EQ(sample.tensor().as<double>()[0], 2.5);
}

TEST_F(MessageOf, a_thousand_small_tensors_arrive_in_order) {
  std::vector<std::vector<std::uint64_t>> words(1000);
  Message message;
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i].resize(1 + i % 7);
    write_pattern(words[i], i);
    message.tensors.push_back(
        TensorView::of(words[i].data(), {static_cast<std::int64_t>(words[i].size())}));
  }
  const bus::Sample sample = crossed(message);
  ASSERT_EQ(sample.tensors().size(), 1000U);
  for (std::size_t i = 0; i < words.size(); ++i) {
    EXPECT_EQ(seed_of(sample.tensors()[i].as<std::uint64_t>()), i);
    EXPECT_EQ(sample.tensors()[i].layout().elements(), 1 + i % 7);
  }
}

TEST_F(MessageOf, tensors_of_many_segments_all_arrive) {
  std::vector<bus::Loan> loans;
  Message message;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    loans.push_back(pattern_loan(publisher, seed, (1 << 20) / 8 - 100 * seed));
    message.tensors.push_back(loans.back().view());
  }
  EXPECT_GT(owner->memory_use().segments, 6U);
  {
    const bus::Sample sample = crossed(message);
    for (std::uint64_t seed = 0; seed < 12; ++seed)
      EXPECT_EQ(seed_of(sample.tensors()[seed].as<std::uint64_t>()), seed);
    loans.clear();
  }
  EXPECT_EQ(used_bytes(owner, {&publisher}), 0U);
}

TEST_F(MessageOf, segments_that_come_and_go_are_told_of) {
  const bus::ParticipantRef thrifty = domain.join({.warm_bytes = 0, .segment_bytes = 1 << 20});
  bus::Publisher giver("other", {}, thrifty);
  bus::Subscriber taker("other", {}, borrower);
  ASSERT_EQ(giver.wait_for_subscribers(1, kLong), Outcome::kDone);
  const std::size_t before = open_descriptors();
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const bus::Loan keeps_the_first_segment_busy = pattern_loan(giver, 0);
    publish_pattern(giver, seed, (2 << 20) / 8);
    EXPECT_EQ(next_seeds(taker, 1), Seeds{seed});
    EXPECT_GT(used_bytes(thrifty, {&giver}), 0U);
  }
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= before + 1; }));
}

TEST_F(MessageOf, malformed_layouts_are_refused_and_nothing_is_sent) {
  const std::vector<int> numbers(10);
  const auto refused = [&](Layout layout) {
    EXPECT_EQ(code_of([&] { publisher.publish(TensorView{numbers.data(), layout}); }),
              Code::kInvalidArgument);
  };
  refused({DType::kInt32, {-1}, {1}});
  refused({DType::kInt32, {2, 2}, {1}});
  refused({static_cast<DType>(200), {2}, {1}});
  refused({DType::kInt32, {std::int64_t{1} << 62, 4}, {4, 1}});
  EXPECT_EQ(publisher.stats().sent, 0U);
  EXPECT_EQ(used_bytes(owner, {&publisher}), 0U);
}

TEST(Topics, a_thousand_of_them_all_work) {
  const FreshDomain domain;
  const bus::ParticipantRef owner = domain.join();
  const bus::ParticipantRef borrower = domain.join();
  constexpr std::uint64_t kTopics = kSanitized ? 100 : 1000;
  std::vector<bus::Publisher> publishers;
  std::vector<bus::Subscriber> subscribers;
  for (std::uint64_t i = 0; i < kTopics; ++i) {
    const std::string topic = "robot/" + std::to_string(i);
    publishers.emplace_back(topic, PublisherOptions{}, owner);
    subscribers.emplace_back(topic, SubscriberOptions{}, borrower);
  }
  for (std::uint64_t i = 0; i < kTopics; ++i) {
    ASSERT_EQ(publishers[i].wait_for_subscribers(1, kLong), Outcome::kDone);
    publish_patterns(publishers[i], i, 1);
  }
  for (std::uint64_t i = 0; i < kTopics; ++i) EXPECT_EQ(next_seeds(subscribers[i], 1), Seeds{i});
}

}  // namespace
}  // namespace tensorbus
