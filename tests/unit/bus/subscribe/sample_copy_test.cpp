// Sample::copy(): memory of this process alone, without a lease.

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class Copies : public ::testing::Test {
 protected:
  Copies() { EXPECT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone); }

  bus::Sample received() {
    std::optional<bus::Sample> sample = subscriber.receive(kLong);
    EXPECT_TRUE(sample);
    return std::move(*sample);
  }
  bus::Sample copy_of_next() { return received().copy(); }
  std::size_t used() { return used_bytes(owner, {&publisher}); }
  static void overwrite(const bus::Sample& sample, std::uint64_t seed) {
    write_pattern(sample.tensor().as_mutable<std::uint64_t>(), seed);
  }

  const FreshDomain domain;
  const bus::ParticipantRef owner = domain.join();
  const bus::ParticipantRef borrower = domain.join();
  bus::Publisher publisher{"topic", {}, owner};
  bus::Subscriber subscriber{"topic", {.max_held = 1}, borrower};
};

TEST_F(Copies, hold_no_lease_and_keep_their_values_when_the_memory_is_reused) {
  std::vector<bus::Sample> copies;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(used(), 0U) << "the same block again, and one sample may be held";
    publish_pattern(publisher, seed, 10000);
    copies.push_back(copy_of_next());
    EXPECT_EQ(subscriber.stats().held, 0U);
  }
  EXPECT_EQ(used(), 0U);
  for (std::uint64_t seed = 0; seed < 20; ++seed) EXPECT_EQ(seed_of(copies[seed]), seed);
}

TEST_F(Copies, leave_the_original_its_lease_and_its_values) {
  publish_pattern(publisher, 1);
  std::optional<bus::Sample> original = received();
  const bus::Sample copy = original->copy();
  overwrite(copy, 2);
  EXPECT_EQ(seed_of(*original), 1U);
  EXPECT_EQ(seed_of(copy), 2U);
  EXPECT_NE(original->tensor().data(), copy.tensor().data());
  EXPECT_EQ(subscriber.stats().held, 1U);
  EXPECT_GT(used(), 0U);
  original.reset();
  EXPECT_EQ(subscriber.stats().held, 0U);
  EXPECT_EQ(used(), 0U);
}

TEST_F(Copies, are_writable_and_their_originals_are_not) {
  publish_pattern(publisher, 1);
  const bus::Sample original = received();
  EXPECT_FALSE(original.tensor().writable());
  EXPECT_TRUE(original.copy().tensor().writable());
  EXPECT_EQ(code_of([&] { (void)original.tensor().mutable_data(); }), Code::kInvalidArgument);
}

TEST_F(Copies, of_copies_are_apart) {
  publish_pattern(publisher, 1);
  std::optional<bus::Sample> first = copy_of_next();
  overwrite(*first, 2);
  const bus::Sample second = first->copy();
  overwrite(*first, 3);
  EXPECT_EQ(seed_of(second), 2U);
  const SampleHeader before = first->header();
  EXPECT_EQ(second.header().sequence, before.sequence);
  EXPECT_NE(second.header().topic.data(), before.topic.data()) << "the name is its own";
  first.reset();
  EXPECT_EQ(second.header().topic, "topic");
  EXPECT_EQ(seed_of(second), 2U);
}

TEST_F(Copies, have_the_whole_header) {
  const std::array<std::uint64_t, 2> own{1, 2};
  const Origin origin{.host = Id::random(), .writer = Id::random(), .sequence = 77};
  publish_pattern(publisher, 1);
  (void)received();
  publisher.publish(Message{.tensors = {TensorView::of(own.data(), {2})},
                            .fields = {},
                            .fingerprint = 12345,
                            .origin = origin});
  const bus::Sample original = received();
  const bus::Sample copy = original.copy();
  const SampleHeader& expected = original.header();
  const SampleHeader& header = copy.header();
  EXPECT_EQ(header.sequence, 1U);
  EXPECT_EQ(header.timestamp_ns, expected.timestamp_ns);
  EXPECT_EQ(header.fingerprint, 12345U);
  EXPECT_EQ(header.publisher, owner->id());
  EXPECT_EQ(header.publisher_number, expected.publisher_number);
  EXPECT_EQ(header.topic, "topic");
  ASSERT_TRUE(header.origin);
  EXPECT_EQ(header.origin->host, origin.host);
  EXPECT_EQ(header.origin->writer, origin.writer);
  EXPECT_EQ(header.origin->sequence, 77U);
}

TEST_F(Copies, have_the_same_fields_inline_or_not) {
  const std::array<std::uint64_t, 3> own{1, 2, 3};
  for (const std::size_t length : {1, 1000}) {
    const std::string text(length, 'x');
    publisher.publish(Value::Map{{"text", text}, {"image", TensorIndex{0}}},
                      {TensorView::of(own.data(), {3})});
    const bus::Sample copy = copy_of_next();
    EXPECT_EQ(copy.fields().at("text").as<std::string>(), text);
    EXPECT_EQ(copy.tensor("image").as<std::uint64_t>()[2], 3U);
  }
}

TEST_F(Copies, of_a_message_without_tensors_have_its_fields_and_its_header) {
  publisher.publish(Value::Map{{"n", 7}}, {});
  std::optional<bus::Sample> original = received();
  const bus::Sample copy = original->copy();
  original.reset();
  EXPECT_TRUE(copy.tensors().empty());
  EXPECT_EQ(copy.fields().at("n").as<std::int64_t>(), 7);
  EXPECT_EQ(copy.header().topic, "topic");
}

TEST_F(Copies, have_every_layout) {
  std::vector<std::int32_t> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto view = [&](std::int64_t first, Dims shape, Dims strides) {
    return TensorView{numbers.data() + first,
                      {DType::kInt32, std::move(shape), std::move(strides)}};
  };
  const std::vector<TensorView> views{
      view(0, {4, 5}, {5, 1}),     // contiguous
      view(119, {20}, {-1}),       // backwards
      view(200, {3, 4}, {1, 3}),   // transposed
      view(300, {10, 2}, {4, 1}),  // with holes
      view(400, {6}, {0}),         // broadcast
      view(500, {}, {}),           // of no dimension
      view(600, {0, 3}, {3, 1}),   // empty
      view(700, {1}, {1}),
  };
  publisher.publish(Value::Map{{"n", 1}}, views);
  std::optional<bus::Sample> original = received();
  const bus::Sample copy = original->copy();
  original.reset();
  ASSERT_EQ(copy.tensors().size(), views.size());
  for (std::size_t i = 0; i < views.size(); ++i) {
    const bus::Tensor& tensor = copy.tensors()[i];
    EXPECT_EQ(tensor.dtype(), DType::kInt32) << i;
    EXPECT_EQ(tensor.shape(), views[i].layout.shape) << i;
    EXPECT_TRUE(tensor.writable()) << i;
    const Layout packed = Layout::contiguous(DType::kInt32, views[i].layout.shape);
    std::vector<std::int32_t> expected(packed.elements());
    std::vector<std::int32_t> copied(packed.elements());
    if (expected.empty()) continue;
    tensor::copy_elements(reinterpret_cast<std::byte*>(expected.data()), packed,
                          static_cast<const std::byte*>(views[i].data), views[i].layout,
                          tensor::Stores::kOrdinary);
    tensor::copy_elements(reinterpret_cast<std::byte*>(copied.data()), packed, tensor.data(),
                          tensor.layout(), tensor::Stores::kOrdinary);
    EXPECT_EQ(copied, expected) << i;
  }
  EXPECT_TRUE(copy.tensors()[6].as_mutable<std::int32_t>().empty());
}

TEST_F(Copies, of_tensors_that_overlap_do_so_too_and_others_do_not) {
  bus::Loan loan = pattern_loan(publisher, 1, 100);
  const auto* words = loan.as<std::uint64_t>().data();
  const std::array<std::uint64_t, 4> own{1, 2, 3, 4};
  publisher.publish(Value::Map{{"n", 1}},
                    {TensorView::of(words, {100}), TensorView::of(words + 10, {20}),
                     TensorView::of(own.data(), {4}), TensorView::of(words, {100})});
  std::optional<bus::Sample> original = received();
  const bus::Sample copy = original->copy();
  original.reset();
  const auto tensors = copy.tensors();
  ASSERT_EQ(tensors.size(), 4U);
  EXPECT_EQ(seed_of(tensors[0].as<std::uint64_t>()), 1U);
  EXPECT_EQ(tensors[0].data(), tensors[3].data());
  EXPECT_EQ(tensors[1].data() - tensors[0].data(), 80);
  tensors[1].as_mutable<std::uint64_t>()[5] = 99;
  EXPECT_EQ(tensors[0].as<std::uint64_t>()[15], 99U);
  for (std::uint64_t& word : tensors[0].as_mutable<std::uint64_t>()) word = 7;
  EXPECT_EQ(tensors[2].as<std::uint64_t>()[3], 4U);
  EXPECT_EQ(seed_of(loan.as<std::uint64_t>()), 1U);
}

TEST_F(Copies, outlive_the_original_its_subscriber_its_publisher_and_both_participants) {
  std::optional<bus::Sample> copy;
  std::optional<bus::Tensor> tensor;
  {
    const bus::ParticipantRef brief_owner = domain.join();
    const bus::ParticipantRef brief_borrower = domain.join();
    bus::Publisher brief("a topic whose name is too long to lie in the string itself", {},
                         brief_owner);
    bus::Subscriber listening("a topic whose name is too long to lie in the string itself", {},
                              brief_borrower);
    ASSERT_EQ(brief.wait_for_subscribers(1, kLong), Outcome::kDone);
    publish_pattern(brief, 5, 100000);
    copy = listening.receive(kLong)->copy();
    tensor = copy->tensor();
  }
  EXPECT_EQ(copy->header().topic, "a topic whose name is too long to lie in the string itself");
  EXPECT_EQ(seed_of(*copy), 5U);
  overwrite(*copy, 6);
  bus::Sample moved = std::move(*copy);
  copy.reset();
  EXPECT_EQ(moved.header().topic, "a topic whose name is too long to lie in the string itself");
  moved = bus::Sample();
  EXPECT_EQ(seed_of(tensor->as<std::uint64_t>()), 6U) << "a tensor keeps the memory by itself";
}

TEST_F(Copies, of_private_samples_have_what_was_written) {
  bus::Subscriber own("topic", {.access = Access::kPrivate}, borrower);
  ASSERT_EQ(publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
  publish_pattern(publisher, 1, 10000);
  std::optional<bus::Sample> sample = own.receive(kLong);
  ASSERT_TRUE(sample);
  overwrite(*sample, 2);
  const bus::Sample copy = sample->copy();
  overwrite(*sample, 3);
  sample.reset();
  EXPECT_EQ(seed_of(copy), 2U);
  EXPECT_EQ(next_seeds(subscriber, 1), Seeds{1});
}

TEST_F(Copies, of_shared_samples_are_apart_from_what_others_write) {
  bus::Publisher open("open", {.shared = true}, owner);
  bus::Subscriber writing("open", {.access = Access::kShared}, borrower);
  ASSERT_EQ(open.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_pattern(open, 1);
  const auto sample = writing.receive(kLong);
  ASSERT_TRUE(sample);
  const bus::Sample copy = sample->copy();
  overwrite(*sample, 2);
  EXPECT_EQ(seed_of(copy), 1U);
  overwrite(copy, 3);
  EXPECT_EQ(seed_of(*sample), 2U);
}

}  // namespace
}  // namespace tensorbus
