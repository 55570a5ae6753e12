// Processes of the same user that mean harm (hostile_process.cpp), among others that go about their
// business: those neither crash nor hang, get every byte as it was sent, and afterwards everything
// is back.

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

// What this process has open, and what shared memory it has mapped: each line of it.
std::multiset<std::string> descriptors_now() {
  std::multiset<std::string> names;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::string name = std::filesystem::read_symlink(entry, gone).string();
    names.insert(name.substr(0, name.find(":[")));  // without the number of a socket
  }
  return names;
}
std::multiset<std::string> mappings_now() {
  std::multiset<std::string> names;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (const auto at = line.find("/memfd:"); at != std::string::npos)
      names.insert(line.substr(at));
  return names;
}
std::string listed(const std::multiset<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + " ";
  return text;
}

constexpr int kAtATime = 500;

// How many things each of them does; more by TENSORBUS_HOSTILE_ROUNDS.
int rounds() {
  const char* text = std::getenv("TENSORBUS_HOSTILE_ROUNDS");
  return text != nullptr ? std::atoi(text) : kSanitized ? kAtATime : 6 * kAtATime;
}

class Hostile : public ::testing::Test {
 protected:
  Hostile() {
    (void)polled.event_descriptor();
    EXPECT_EQ(publisher.wait_for_subscribers(3, kLong), Outcome::kDone);
    EXPECT_EQ(sure.wait_for_subscribers(1, kLong), Outcome::kDone);
    for (bus::Subscriber* subscriber : {&parked, &polled, &own_pages, &sure_here})
      EXPECT_EQ(subscriber->wait_for_publishers(1, kLong), Outcome::kDone);
    publish_patterns(publisher, 1,
                     1);  // everybody has the segment then, and each link all of its own
    for (bus::Subscriber* subscriber : {&parked, &polled, &own_pages})
      EXPECT_EQ(next_seeds(*subscriber, 1), Seeds{1});
    go_on();
  }

  // A round of the others' business.
  void go_on() {
    for (std::size_t words : {std::size_t{64}, std::size_t{100'000}})
      ASSERT_EQ(publish_pattern(publisher, seed_++, words).outcome, Outcome::kDone);
    for (bus::Subscriber* subscriber : {&parked, &polled, &own_pages}) take_all(*subscriber);
    ASSERT_EQ(publish_pattern(sure, seed_, 64).outcome, Outcome::kDone);
    ASSERT_EQ(next_seeds(sure_here, 1), Seeds{seed_});
  }
  // Whatever a hostile publisher sent can be read; what ours sent is whole and in order.
  void take_all(bus::Subscriber& subscriber) {
    bus::Sample sample;
    while (subscriber.try_receive(sample) == Outcome::kDone) {
      if (sample.header().publisher != owner->id()) {
        read(sample);
        continue;
      }
      const auto seed = seed_of(sample);
      ASSERT_TRUE(seed) << "sample " << sample.header().sequence << " is torn";
      std::uint64_t& expected = next_[&subscriber];
      EXPECT_GE(sample.header().sequence, expected);
      expected = sample.header().sequence + 1;
      ++received_[&subscriber];
    }
  }
  void read(const bus::Sample& sample) {
    for (const bus::Tensor& tensor : sample.tensors()) {
      const ByteSpan span = span_of(tensor.layout());
      for (std::int64_t i = span.begin; i < span.end; ++i)
        sum_ = sum_ + static_cast<std::uint64_t>(tensor.data()[i]);
    }
    ++strange_;
  }

  const FreshDomain domain;
  const bus::ParticipantRef owner =
      domain.join({.warm_bytes = 0});  // segments go when they are empty
  const bus::ParticipantRef borrower = domain.join();
  bus::Publisher publisher{"topic", {.depth = 8, .history = 2}, owner};
  bus::Publisher sure{"sure", {.depth = 2, .reliable = true}, owner};
  bus::Subscriber parked{"topic", {}, borrower};
  bus::Subscriber polled{"topic", {}, borrower};
  bus::Subscriber own_pages{"topic", {.access = Access::kPrivate}, borrower};
  bus::Subscriber sure_here{"sure", {}, borrower};
  std::map<bus::Subscriber*, std::uint64_t> next_;
  std::map<bus::Subscriber*, std::uint64_t> received_;
  std::uint64_t seed_ = 1;
  std::uint64_t strange_ = 0;
  volatile std::uint64_t sum_ = 0;
};

TEST_F(Hostile, processes_hurt_nobody_else) {
  const auto descriptors = descriptors_now();
  const auto mappings = mappings_now();
  {
    Peer one(domain, "", "hostile_process");
    Peer other(domain, "", "hostile_process");
    for (int left = rounds(); left > 0 && !HasFailure(); left -= kAtATime) {
      one.tell("attack 1 " + std::to_string(kAtATime));
      other.tell("attack 2 " + std::to_string(kAtATime));
      std::atomic<bool> done = false;
      std::thread waiting([&] {
        EXPECT_EQ(one.reply(), "ok");
        EXPECT_EQ(other.reply(), "ok");
        done = true;
      });
      while (!done && !HasFatalFailure()) go_on();
      waiting.join();
    }
    go_on();
  }
  EXPECT_GT(strange_, 0U) << "no sample of theirs was even received; refused "
                          << parked.stats().refused << ", the last: " << parked.stats().last_refusal
                          << ", bad " << parked.stats().bad;
  for (bus::Subscriber* subscriber : {&parked, &polled, &own_pages})
    EXPECT_GT(received_[subscriber], 0U);
  EXPECT_TRUE(eventually([&] {
    go_on();
    return publisher.subscribers() == 3 && parked.stats().publishers == 1 &&
           polled.stats().publishers == 1 && own_pages.stats().publishers == 1;
  }));
  EXPECT_TRUE(eventually([&] {
    go_on();  // a link has its last segment mapped until its next sample
    return descriptors_now().size() <= descriptors.size();
  })) << listed(descriptors_now())
      << "\nthere were " << listed(descriptors);
  EXPECT_TRUE(eventually([&] {
    go_on();
    return mappings_now().size() <= mappings.size();
  })) << listed(mappings_now())
      << "\nthere were " << listed(mappings);
  bus::Publisher fresh("topic", {}, domain.join());
  EXPECT_EQ(fresh.wait_for_subscribers(3, kLong), Outcome::kDone);
}

}  // namespace
}  // namespace tensorbus
