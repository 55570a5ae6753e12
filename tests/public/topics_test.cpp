// Publishers, subscribers, samples and tensors.

#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <numeric>

#include "support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class Topic : public ::testing::Test {
 protected:
  void connect(const PublisherOptions& publishing = {}, const SubscriberOptions& receiving = {}) {
    publisher.emplace("topic", publishing, owner);
    subscriber.emplace("topic", receiving, borrower);
    ASSERT_EQ(publisher->wait_for_subscribers(1, kLong), Outcome::kDone);
    ASSERT_EQ(subscriber->wait_for_publishers(1, kLong), Outcome::kDone);
  }
  Sample next() {
    auto sample = subscriber->receive(kLong);
    EXPECT_TRUE(sample);
    return sample ? std::move(*sample) : Sample();
  }

  const FreshDomain domain;
  const Participant owner = domain.join();
  const Participant borrower = domain.join();
  std::optional<Publisher> publisher;
  std::optional<Subscriber> subscriber;
};

TEST_F(Topic, says_what_it_is) {
  const MessageType type("a.Type\nx: int");
  connect({.type = type, .node = "camera"}, {.type = type});
  EXPECT_EQ(publisher->topic(), "topic");
  EXPECT_EQ(publisher->type().definition(), type.definition());
  EXPECT_EQ(subscriber->topic(), "topic");
  EXPECT_EQ(publisher->subscribers(), 1U);
  EXPECT_EQ(subscriber->stats().publishers, 1U);
}

TEST_F(Topic, tensors_outlive_all_else) {
  connect();
  publisher->publish(filled_loan(*publisher, 1));
  std::optional<Sample> sample = next();
  const Tensor kept = sample->tensor();
  const Tensor copy = kept;
  sample.reset();
  EXPECT_GT(publisher->stats().bytes_in_flight, 0U);
  subscriber.reset();
  publisher.reset();
  EXPECT_TRUE(is_filled(kept.as<float>(), 1));
  EXPECT_EQ(copy.data(), kept.data());
  EXPECT_EQ(copy.layout(), Layout::contiguous(DType::kFloat32, {1000}));
  EXPECT_FALSE(copy.writable());
  EXPECT_TRUE(copy.intact());
  EXPECT_FALSE(copy.device().is_cuda());
}

TEST_F(Topic, elements_that_pytorch_has_not_negated_or_conjugated_yet_are_refused) {
  connect();
  const std::array<float, 2> numbers{};
  for (const TensorFlags flag : {TensorFlags::kNegative, TensorFlags::kConjugate}) {
    publisher->publish(
        TensorView{numbers.data(), Layout::contiguous(DType::kFloat32, {1, 2}, flag)});
    const Sample sample = next();
    const Tensor& tensor = sample.tensor();
    EXPECT_EQ(code_of([&] { (void)tensor.as<float>(); }), Code::kInvalidArgument);
    EXPECT_EQ(code_of([&] { (void)tensor.view<float, 2>(); }), Code::kInvalidArgument);
    EXPECT_TRUE(has(tensor.layout().flags, flag));
  }
}

TEST_F(Topic, several_samples_are_received_at_once) {
  connect({.depth = 100});
  for (std::int64_t number = 0; number < 80; ++number) publisher->publish(Value(number), {});
  std::int64_t next = 0;
  const auto require_next = [&](std::span<const Sample> samples, std::size_t count) {
    ASSERT_EQ(samples.size(), count);
    for (const Sample& sample : samples) EXPECT_EQ(sample.fields().as<std::int64_t>(), next++);
  };
  require_next(subscriber->receive_many(5, kLong), 5);
  std::vector<Sample> samples(70);
  std::size_t count = 0;
  ASSERT_EQ(subscriber->receive_many(samples, count, kLong), Outcome::kDone);
  require_next(std::span(samples).first(count), 70);
  require_next(subscriber->receive_many(64, kLong), 5);
  EXPECT_TRUE(subscriber->receive_many(64, 1ms).empty());
  EXPECT_EQ(subscriber->receive_many(samples, count, 0s), Outcome::kTimedOut);
  EXPECT_EQ(count, 0U);
  EXPECT_EQ(subscriber->receive_many(samples, count, kLong, [] { return true; }),
            Outcome::kInterrupted);
}

TEST_F(Topic, a_batch_of_tensors_is_held_until_it_is_taken_anew) {
  connect({.depth = 100}, {.max_held = 2});
  for (int i = 0; i < 4; ++i) publisher->publish(filled_loan(*publisher, static_cast<float>(i)));
  std::vector<Sample> samples(10);
  std::size_t count = 0;
  ASSERT_EQ(subscriber->receive_many(samples, count, kLong), Outcome::kDone);
  EXPECT_EQ(count, 2U);
  EXPECT_TRUE(is_filled(samples[1].tensor().as<float>(), 1));
  EXPECT_THROW(subscriber->receive_many(10, kLong), Error);
  ASSERT_EQ(subscriber->receive_many(samples, count, kLong), Outcome::kDone);
  EXPECT_EQ(count, 2U);
  EXPECT_TRUE(is_filled(samples[0].tensor().as<float>(), 2));
}

TEST_F(Topic, sample_that_was_let_go_of_gives_its_memory_back) {
  connect();
  publisher->publish(filled_loan(*publisher, 1));
  {
    const Sample sample = next();
    const Tensor tensor = sample.tensor();
    EXPECT_GT(publisher->stats().bytes_in_flight, 0U);
  }
  EXPECT_TRUE(eventually([&] { return publisher->stats().bytes_in_flight == 0; }));
}

TEST_F(Topic, message_of_many_tensors_arrives_in_order) {
  connect();
  std::array<std::vector<float>, 5> arrays;
  Message message;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    arrays[i].resize(10 + i);
    fill(arrays[i], static_cast<float>(100 * i));
    message.tensors.push_back(
        TensorView::of(arrays[i].data(), {static_cast<std::int64_t>(arrays[i].size())}));
  }
  message.fingerprint = 0x1234;
  message.origin = Origin{Id::random(), Id::random(), 42};
  EXPECT_EQ(publisher->publish(message, 1s).outcome, Outcome::kDone);
  const Sample sample = next();
  ASSERT_EQ(sample.tensors().size(), arrays.size());
  for (std::size_t i = 0; i < arrays.size(); ++i)
    EXPECT_TRUE(is_filled(sample.tensors()[i].as<float>(), static_cast<float>(100 * i)));
  EXPECT_EQ(sample.header().fingerprint, 0x1234U);
  EXPECT_EQ(sample.header().origin, message.origin);
  EXPECT_EQ(sample.header().publisher, owner.id());
  EXPECT_EQ(publisher->stats().bytes_copied, 4U * (10 + 11 + 12 + 13 + 14));
}

TEST_F(Topic, tensors_are_seen_by_their_indices) {
  connect();
  const Loan loan = publisher->loan<std::int32_t>({3, 4});
  const auto written = loan.view<std::int32_t, 2>();
  for (int row = 0; row < 3; ++row)
    for (int column = 0; column < 4; ++column) written(row, column) = 10 * row + column;
  TensorView transposed = loan.view();
  transposed.layout.shape = {4, 3};
  transposed.layout.strides = {1, 4};
  publisher->publish(transposed);
  const Sample sample = next();
  const auto read = sample.tensor().view<std::int32_t, 2>();
  EXPECT_EQ(read.shape(), (std::array<std::int64_t, 2>{4, 3}));
  EXPECT_EQ(read.extent(0), 4);
  EXPECT_EQ(read.stride(1), 4);
  EXPECT_EQ(read(3, 2), 23);
  EXPECT_EQ(read(1, 2), 21);
  EXPECT_EQ(code_of([&] { (void)sample.tensor().view<std::int32_t, 3>(); }),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { (void)sample.tensor().view<float, 2>(); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { (void)sample.tensor().as<std::int32_t>(); }), Code::kInvalidArgument)
      << "it is not contiguous";
}

TEST_F(Topic, single_tensor_that_is_asked_for_by_a_key_says_that_there_are_no_fields) {
  connect();
  publisher->publish(publisher->loan<float>({2}));
  const Sample sample = next();
  try {
    (void)sample.tensor("image");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidArgument);
    EXPECT_STREQ(error.what(),
                 "no field \"image\": there are no fields, as in a message that is a single "
                 "tensor: get that without a key");
  }
}

TEST_F(Topic, view_of_no_dimensions_is_one_element) {
  connect();
  const double number = 0.5;
  publisher->publish(TensorView::of(&number, {}));
  const Sample sample = next();
  EXPECT_EQ((sample.tensor().view<double, 0>()()), 0.5);
}

TEST_F(Topic, private_writes_are_seen_by_nobody_else) {
  connect({}, {.access = Access::kPrivate});
  Subscriber other("topic", {}, borrower);
  ASSERT_EQ(publisher->wait_for_subscribers(2, kLong), Outcome::kDone);
  publisher->publish(filled_loan(*publisher, 1));
  const Sample mine = next();
  mine.tensor().mutable_view<float, 1>()(0) = 9;
  EXPECT_EQ(mine.tensor().as<float>()[0], 9);
  const auto theirs = other.receive(kLong);
  ASSERT_TRUE(theirs);
  EXPECT_TRUE(is_filled(theirs->tensor().as<float>(), 1));
  EXPECT_EQ(code_of([&] { (void)theirs->tensor().mutable_data(); }), Code::kInvalidArgument);
}

TEST_F(Topic, copy_of_a_sample_holds_no_lease) {
  connect();
  publisher->publish(filled_loan(*publisher, 1));
  const Sample copy = next().copy();
  EXPECT_TRUE(eventually([&] { return publisher->stats().bytes_in_flight == 0; }));
  EXPECT_TRUE(copy.tensor().writable());
  copy.tensor().as_mutable<float>()[0] = 1;
  EXPECT_TRUE(is_filled(copy.tensor().as<float>(), 1));
}

TEST_F(Topic, loan_is_gone_once_it_was_published) {
  connect();
  Loan loan = filled_loan(*publisher, 1);
  EXPECT_EQ(code_of([&] { (void)loan.as<double>(); }), Code::kInvalidArgument);
  publisher->publish(std::move(loan));
  EXPECT_EQ(code_of([&] { (void)loan.data(); }), Code::kClosed);
  EXPECT_EQ(code_of([&] { publisher->publish(std::move(loan)); }), Code::kClosed);
  const Loan twice = filled_loan(*publisher, 1);
  publisher->publish(twice.view());
  EXPECT_EQ(code_of([&] { publisher->publish(twice.view()); }), Code::kInvalidArgument);
}

TEST_F(Topic, loan_that_could_not_be_published_is_still_there) {
  connect();
  Loan loan = filled_loan(*publisher, 1);
  publisher->close();
  EXPECT_EQ(publisher->publish(std::move(loan)).outcome, Outcome::kClosed);
  EXPECT_TRUE(is_filled(loan.as<float>(), 1));
}

TEST_F(Topic, full_subscriber_of_a_reliable_publisher_makes_it_wait) {
  connect({.depth = 1, .reliable = true, .timeout = 1ms});
  publisher->publish(filled_loan(*publisher, 1));
  EXPECT_EQ(publisher->publish(filled_loan(*publisher, 2)).outcome, Outcome::kTimedOut);
  int asked = 0;
  const Loan third = filled_loan(*publisher, 3);
  const Message message{.tensors = {third.view()}};
  EXPECT_EQ(publisher->publish(message, kLong, [&] { return ++asked == 2; }).outcome,
            Outcome::kInterrupted);
  EXPECT_EQ(asked, 2);
  EXPECT_TRUE(is_filled(next().tensor().as<float>(), 1));
  EXPECT_EQ(publisher->publish(message, kLong).outcome, Outcome::kDone);
}

TEST_F(Topic, reliable_publisher_names_the_process_that_it_waits_for) {
  connect({.depth = 1, .reliable = true, .timeout = 1ms});
  publisher->publish(filled_loan(*publisher, 1));
  EXPECT_EQ(publisher->publish(filled_loan(*publisher, 2)).outcome, Outcome::kTimedOut);
  EXPECT_EQ(publisher->stats().blocked_by, static_cast<std::uint32_t>(::getpid()));
  EXPECT_GE(publisher->stats().blocked_for, 1ms);
}

TEST_F(Topic, reliable_publisher_waits_for_no_subscriber_that_is_not) {
  connect({.depth = 1, .reliable = true, .timeout = 1ms}, {.reliable = false});
  publisher->publish(filled_loan(*publisher, 1));
  EXPECT_EQ(publisher->publish(filled_loan(*publisher, 2)).outcome, Outcome::kDone);
  EXPECT_TRUE(is_filled(next().tensor().as<float>(), 2));
  EXPECT_EQ(publisher->stats().blocked_by, 0U);
}

TEST_F(Topic, reliable_publisher_cuts_off_who_blocks_it_for_lag_timeout) {
  connect({.depth = 1, .history = 1, .reliable = true, .lag_timeout = 10ms});
  for (float value = 1; value < 4; ++value)
    EXPECT_EQ(publisher->publish(filled_loan(*publisher, value)).outcome, Outcome::kDone);
  EXPECT_EQ(publisher->stats().cut_off, 1U);
  EXPECT_TRUE(is_filled(next().tensor().as<float>(), 3));  // it is connected again
  EXPECT_EQ(subscriber->stats().cut_off, 1U);
  EXPECT_EQ(subscriber->stats().missed, 2U);
  const PublisherOptions zero{.reliable = true, .lag_timeout = 0ns};
  EXPECT_EQ(code_of([&] { Publisher never("topic", zero); }), Code::kInvalidArgument);
}

TEST_F(Topic, end_of_its_stream_is_told_to_a_subscriber_that_asked) {
  connect({}, {.end_of_stream = true});
  publisher->publish(filled_loan(*publisher, 1));
  publisher->close();
  EXPECT_TRUE(is_filled(next().tensor().as<float>(), 1));
  Sample none;
  EXPECT_EQ(subscriber->receive(none, kLong), Outcome::kClosed);
}

TEST_F(Topic, keeper_of_a_tensor_is_let_go_of_whatever_becomes_of_the_call) {
  connect();
  std::weak_ptr<const void> kept;
  const auto view_of = [&](std::size_t strides) {
    auto values = std::make_shared<std::vector<float>>(4);
    kept = values;
    TensorView view = TensorView::of(values->data(), {4});
    view.layout.strides = Dims(strides);
    view.keeper = std::move(values);
    return view;
  };
  publisher->publish(view_of(1));
  EXPECT_TRUE(eventually([&] { return kept.expired(); }));
  EXPECT_EQ(code_of([&] { publisher->publish(view_of(2)); }), Code::kInvalidArgument);
  EXPECT_TRUE(kept.expired());
  Message bad{.tensors = {view_of(1)}};
  bad.tensors.front().layout.dtype = DType{0};
  EXPECT_EQ(code_of([&] { publisher->publish(bad); }), Code::kInvalidArgument);
  bad.tensors.clear();
  EXPECT_TRUE(kept.expired());
}

TEST_F(Topic, descriptor_says_when_there_is_something) {
  connect();
  publisher->publish(filled_loan(*publisher, 0));
  (void)next();  // from now on their segment is mapped
  pollfd polled{subscriber->event_descriptor(), POLLIN, 0};
  EXPECT_FALSE(subscriber->try_receive());
  EXPECT_FALSE(subscriber->ready());
  publisher->publish(filled_loan(*publisher, 1));
  ASSERT_EQ(::poll(&polled, 1, 30'000), 1);
  EXPECT_TRUE(subscriber->ready());
  EXPECT_TRUE(subscriber->try_receive());
  EXPECT_FALSE(subscriber->try_receive());
}

TEST_F(Topic, holding_too_many_samples_is_said) {
  connect({.depth = 4}, {.max_held = 1});
  for (float i = 0; i < 2; ++i) publisher->publish(filled_loan(*publisher, i));
  const Sample held = next();
  Sample more;
  EXPECT_EQ(subscriber->receive(more, kLong), Outcome::kHoldLimit);
  EXPECT_EQ(code_of([&] { (void)subscriber->try_receive(); }), Code::kInvalidArgument);
}

TEST_F(Topic, subscriber_of_another_type_is_told_both) {
  publisher.emplace("topic", PublisherOptions{.type = MessageType("a.A\nx: int")}, owner);
  subscriber.emplace("topic", SubscriberOptions{.type = MessageType("a.A\nx: str")}, borrower);
  EXPECT_EQ(code_of([&] { (void)subscriber->receive(kLong); }), Code::kTypeMismatch);
  const SubscriberStats stats = subscriber->stats();
  EXPECT_EQ(stats.refused, 1U);
  EXPECT_NE(stats.last_refusal.find("expected str, published is int"), std::string::npos);
}

TEST_F(Topic, mistakes_are_named) {
  EXPECT_EQ(code_of([&] { const Publisher nameless("", {}, owner); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { const Subscriber nameless("", {}, owner); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { const Subscriber cut(std::string("a\0b", 3), {}, owner); }),
            Code::kInvalidArgument);
  connect();
  EXPECT_EQ(code_of([&] { (void)publisher->loan<float>({-1}); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { (void)publisher->loan<double>({std::int64_t{1} << 50}); }),
            Code::kOutOfMemory);
}

TEST_F(Topic, receives_in_many_threads_each_sample_once) {
  constexpr std::uint64_t kCount = 400;
  connect({.depth = 64, .reliable = true});
  std::atomic<std::uint64_t> sum = 0;
  std::atomic<std::uint64_t> received = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      while (const auto sample = subscriber->receive(kLong)) {
        sum += sample->tensor().as<std::uint64_t>()[0];
        if (++received == kCount) subscriber->close();
      }
    });
  for (std::uint64_t i = 0; i < kCount; ++i)
    ASSERT_EQ(publisher->publish(TensorView::of(&i, {1})).outcome, Outcome::kDone);
  threads.clear();
  EXPECT_EQ(sum, kCount * (kCount - 1) / 2);
}

}  // namespace
}  // namespace tensorbus
