// Access::kPrivate: a subscriber writes to what it receives, and nobody else sees it.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <array>
#include <fstream>

#include "tests/unit/bus/test_support.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

constexpr SubscriberOptions kPrivately{.access = Access::kPrivate};

class Private : public ::testing::Test {
 protected:
  Private() { EXPECT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone); }

  static void overwrite(const bus::Sample& sample, std::uint64_t seed) {
    write_pattern(sample.tensor().as_mutable<std::uint64_t>(), seed);
  }

  const FreshDomain domain;
  const bus::ParticipantRef owner = domain.join();
  const bus::ParticipantRef borrower = domain.join();
  bus::Publisher publisher{"topic", {}, owner};
  bus::Subscriber subscriber{"topic", kPrivately, borrower};
};

TEST_F(Private, a_write_is_seen_by_the_writer_alone) {
  bus::Subscriber reading("topic", {}, borrower);
  bus::Subscriber writing_too("topic", kPrivately, borrower);
  ASSERT_EQ(publisher.wait_for_subscribers(3, kLong), Outcome::kDone);
  bus::Loan loan = pattern_loan(publisher, 1, 10000);
  ASSERT_EQ(publisher.publish(loan.view()).outcome, Outcome::kDone);
  const auto mine = subscriber.receive(kLong);
  const auto read = reading.receive(kLong);
  const auto other = writing_too.receive(kLong);
  ASSERT_TRUE(mine && read && other);
  EXPECT_TRUE(mine->tensor().writable());
  overwrite(*mine, 2);
  overwrite(*other, 3);
  EXPECT_EQ(seed_of(*mine), 2U);
  EXPECT_EQ(seed_of(*other), 3U);
  EXPECT_EQ(seed_of(*read), 1U);
  EXPECT_EQ(seed_of(loan.as<std::uint64_t>()), 1U);
}

TEST_F(Private, a_write_is_not_seen_in_the_next_sample_of_the_same_block) {
  const auto place = [](const bus::Sample& sample) { return sample.tensor().data(); };
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::size_t used = used_bytes(owner, {&publisher});
    EXPECT_EQ(used, 0U) << "the same block again";
    publish_patterns(publisher, seed, 1);
    const auto sample = subscriber.receive(kLong);
    ASSERT_TRUE(sample);
    ASSERT_NE(place(*sample), nullptr);
    EXPECT_EQ(seed_of(*sample), seed);
    overwrite(*sample, 1000 + seed);
    EXPECT_EQ(seed_of(*sample), 1000 + seed);
  }
}

TEST_F(Private, neighbours_in_a_page_do_not_hurt_each_other) {
  publish_patterns(publisher, 0, 8);  // 512 bytes each: eight in a page
  std::vector<bus::Sample> samples;
  for (int i = 0; i < 8; ++i) samples.push_back(*subscriber.receive(kLong));
  for (std::uint64_t i = 0; i < 8; i += 2) overwrite(samples[i], 100 + i);
  for (std::uint64_t i = 0; i < 8; ++i) EXPECT_EQ(seed_of(samples[i]), i % 2 == 0 ? 100 + i : i);
}

TEST_F(Private, the_lease_goes_back_with_the_last_tensor_and_its_mapping_too) {
  publish_patterns(publisher, 1, 1);
  std::optional<bus::Sample> sample = subscriber.receive(kLong);
  ASSERT_TRUE(sample);
  std::optional<bus::Tensor> tensor = sample->tensor();
  sample.reset();
  EXPECT_GT(used_bytes(owner, {&publisher}), 0U);
  EXPECT_EQ(seed_of(tensor->as<std::uint64_t>()), 1U);
  void* page = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(tensor->data()) &
                                       ~std::uintptr_t{4095});
  unsigned char resident = 0;
  EXPECT_EQ(::mincore(page, 1, &resident), 0);
  tensor.reset();
  EXPECT_EQ(used_bytes(owner, {&publisher}), 0U);
  EXPECT_EQ(::mincore(page, 1, &resident), -1);
}

TEST_F(Private, all_tensors_of_a_message_are_there_and_writable) {
  bus::Loan large = pattern_loan(publisher, 1, 100000);  // a segment may hold both or not
  bus::Loan small = pattern_loan(publisher, 2, 64);
  bus::Loan huge = pattern_loan(publisher, 3, (std::size_t{65} << 20) / 8);  // one of its own
  const std::array<std::uint64_t, 3> own{10, 11, 12};
  const TensorView copied = TensorView::of(own.data(), {3});
  const TensorView empty = TensorView::of(own.data(), {0});
  publisher.publish(Value::Map{{"n", 1}},
                    {small.view(), copied, large.view(), empty, huge.view(), small.view()});
  const auto sample = subscriber.receive(kLong);
  ASSERT_TRUE(sample);
  const auto tensors = sample->tensors();
  ASSERT_EQ(tensors.size(), 6U);
  const std::array<std::uint64_t, 6> seeds{2, 0, 1, 0, 3, 2};
  for (const std::size_t i : {0, 2, 4, 5})
    EXPECT_EQ(seed_of(tensors[i].as<std::uint64_t>()), seeds[i]) << i;
  EXPECT_EQ(tensors[1].as<std::uint64_t>()[2], 12U);
  EXPECT_EQ(tensors[3].as_mutable<std::uint64_t>().size(), 0U);
  EXPECT_EQ(tensors[0].data(), tensors[5].data()) << "the same memory";
  for (const bus::Tensor& tensor : tensors) {
    ASSERT_TRUE(tensor.writable());
    for (std::uint64_t& word : tensor.as_mutable<std::uint64_t>()) word = 9;
  }
  EXPECT_EQ(tensors[4].as<std::uint64_t>().back(), 9U);
  EXPECT_EQ(seed_of(huge.as<std::uint64_t>()), 3U);
  EXPECT_EQ(seed_of(large.as<std::uint64_t>()), 1U);
}

TEST_F(Private, a_view_with_negative_strides_keeps_its_elements) {
  bus::Loan loan = pattern_loan(publisher, 5, 1024);
  Layout backwards;
  backwards.dtype = DType::kUInt64;
  backwards.shape = Dims({1024});
  backwards.strides = Dims({-1});
  publisher.publish(TensorView{loan.data() + 1023 * 8, backwards});
  const auto sample = subscriber.receive(kLong);
  ASSERT_TRUE(sample);
  auto* last = reinterpret_cast<std::uint64_t*>(sample->tensor().mutable_data());
  for (std::size_t i = 0; i < 1024; ++i)
    ASSERT_EQ(last[-1023 + static_cast<std::ptrdiff_t>(i)], word_after(5, i));
  last[0] = last[-1023] = 1;
  EXPECT_EQ(seed_of(loan.as<std::uint64_t>()), 5U);
}

TEST_F(Private, what_others_receive_by_default_is_read_only_and_says_the_way_out) {
  bus::Subscriber reading("topic", {}, borrower);
  ASSERT_EQ(publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
  publish_patterns(publisher, 1, 1);
  const auto sample = reading.receive(kLong);
  ASSERT_TRUE(sample);
  EXPECT_FALSE(sample->tensor().writable());
  std::string message;
  EXPECT_EQ(test::error_of([&] { (void)sample->tensor().mutable_data(); }, &message),
            "InvalidArgument");
  EXPECT_NE(message.find("Access::kPrivate"), std::string::npos) << message;
  EXPECT_EQ(code_of([&] { (void)sample->tensor().as_mutable<std::uint64_t>(); }),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { (void)sample->tensor().as_mutable<float>(); }), Code::kInvalidArgument);
}

// Lowers what this process may map to what it has and `room` more.
rlimit leave_address_space(std::size_t room) {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages;
  rlimit before{};
  ::getrlimit(RLIMIT_AS, &before);
  const rlimit tight{pages * 4096 + room, before.rlim_max};
  ::setrlimit(RLIMIT_AS, &tight);
  return before;
}

TEST(PrivateMemory, that_cannot_be_mapped_is_named_and_the_sample_comes_later) {
  if (kSanitized) GTEST_SKIP() << "RLIMIT_AS is not for sanitizers";
  test::Child child([] {
    const FreshDomain domain;
    const bus::ParticipantRef owner = domain.join();
    bus::Publisher publisher("topic", {}, owner);
    bus::Subscriber subscriber("topic", kPrivately, owner);
    if (publisher.wait_for_subscribers(1, kLong) != Outcome::kDone) return false;
    constexpr std::size_t kWords = (std::size_t{16} << 20) / 8;
    publish_pattern(publisher, 1, kWords);
    if (seed_of(*subscriber.receive(kLong)) != 1U) return false;
    const int event = subscriber.event_descriptor();
    publish_pattern(publisher, 2, kWords);
    publish_pattern(publisher, 3, 64);
    const rlimit before = leave_address_space(std::size_t{2} << 20);
    std::string message;
    for (int i = 0; i < 3; ++i) {
      if (test::error_of([&] { (void)subscriber.receive(kLong); }, &message) != "OutOfMemory")
        return false;
      if (message.find("RLIMIT_AS") == std::string::npos) return false;
      pollfd ready{event, POLLIN, 0};
      if (::poll(&ready, 1, 0) != 1) return false;
    }
    if (test::error_of([&] { (void)subscriber.try_receive(); }) != "OutOfMemory") return false;
    ::setrlimit(RLIMIT_AS, &before);
    const Seeds seeds = next_seeds(subscriber, 2);
    const SubscriberStats stats = subscriber.stats();
    return seeds == Seeds{2, 3} && stats.bad == 0 && stats.missed == 0 && stats.held == 0 &&
           used_bytes(owner, {&publisher}) == 0;
  });
  EXPECT_EQ(child.wait(), "exit 0");
}

TEST(PrivateMemory, of_a_sample_that_was_put_aside_goes_back_when_the_subscriber_closes) {
  if (kSanitized) GTEST_SKIP() << "RLIMIT_AS is not for sanitizers";
  test::Child child([] {
    const FreshDomain domain;
    const bus::ParticipantRef owner = domain.join();
    bus::Publisher publisher("topic", {}, owner);
    bus::Subscriber subscriber("topic", kPrivately, owner);
    if (publisher.wait_for_subscribers(1, kLong) != Outcome::kDone) return false;
    publish_pattern(publisher, 1, 64);
    const auto held = subscriber.receive(kLong);
    const std::size_t used = used_bytes(owner, {&publisher});
    publish_pattern(publisher, 2, (std::size_t{16} << 20) / 8);
    const rlimit before = leave_address_space(std::size_t{2} << 20);
    if (code_of([&] { (void)subscriber.try_receive(); }) != Code::kOutOfMemory) return false;
    ::setrlimit(RLIMIT_AS, &before);
    subscriber.close();
    return eventually([&] { return used_bytes(owner, {&publisher}) == used; }) &&
           seed_of(*held) == 1U;
  });
  EXPECT_EQ(child.wait(), "exit 0");
}

}  // namespace
}  // namespace tensorbus
