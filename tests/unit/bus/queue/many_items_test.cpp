// Queues: many items in one call, and many threads of one process.

#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tensorbus/bus/queue.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class ManyItems : public ::testing::Test {
 protected:
  static Outcome put(bus::Queue& queue, std::uint64_t seed,
                     std::chrono::nanoseconds timeout = kLong) {
    std::vector<std::uint64_t> words(64);
    write_pattern(words, seed);
    return queue.put({.tensors = {TensorView::of(words.data(), {64})}}, timeout);
  }
  static std::optional<std::uint64_t> get(bus::Queue& queue,
                                          std::chrono::nanoseconds timeout = kLong) {
    bus::Sample sample;
    if (queue.get(sample, timeout) != Outcome::kDone) return std::nullopt;
    return seed_of(sample);
  }
  bus::Queue open(const bus::Queue& queue, const bus::ParticipantRef& by) {
    return bus::Queue::open(queue.address(), kLong, by);
  }
  bool unused(const bus::ParticipantRef& participant) {
    return eventually([&] { return participant->memory_use().used_bytes == 0; });
  }

  const FreshDomain domain;
  bus::ParticipantRef server = domain.join();
  bus::ParticipantRef producer = domain.join();
  bus::ParticipantRef consumer = domain.join();
};

TEST_F(ManyItems, are_put_and_got_in_order) {
  bus::Queue queue({.maxsize = 6}, server);
  bus::Queue in = open(queue, producer);
  bus::Queue out = open(queue, consumer);
  std::vector<std::vector<std::uint64_t>> words(10, std::vector<std::uint64_t>(64));
  std::vector<TensorView> views;
  std::vector<Message> messages;
  for (std::uint64_t seed = 0; seed < words.size(); ++seed) {
    write_pattern(words[seed], seed);
    views.push_back(TensorView::of(words[seed].data(), {64}));
  }
  for (const TensorView& view : views) messages.push_back({.tensors = {view}});
  for (bus::Queue* const way : {&in, &queue}) {
    std::size_t count = 0;
    EXPECT_EQ(way->put_many(messages, count, 5ms), Outcome::kTimedOut);
    EXPECT_EQ(count, 6U);
    EXPECT_EQ(way->put_many(messages, count, 0s), Outcome::kTimedOut);
    EXPECT_EQ(count, 0U);
    std::vector<bus::Sample> items;
    EXPECT_EQ(out.get_many(items, 2, kLong), Outcome::kDone);
    EXPECT_EQ(queue.get_many(items, 100, kLong), Outcome::kDone);
    ASSERT_EQ(items.size(), 6U);
    for (std::uint64_t seed = 0; seed < 6; ++seed) EXPECT_EQ(seed_of(items[seed]), seed);
    EXPECT_EQ(out.get_many(items, 5, 1ms), Outcome::kTimedOut);
  }
  std::size_t count = 0;
  queue.shutdown();
  EXPECT_EQ(in.put_many(messages, count, kLong), Outcome::kShutDown);
  EXPECT_EQ(count, 0U);
  for (const bus::ParticipantRef* each : {&server, &producer, &consumer})
    EXPECT_TRUE(unused(*each));
}

TEST_F(ManyItems, go_between_threads_that_wait_and_serve_each_other) {
  bus::Queue there({}, server);
  bus::Queue back({}, server);
  bus::Queue in = open(there, consumer);
  bus::Queue out = open(back, consumer);
  constexpr std::uint64_t kItems = 200;
  constexpr int kThreads = 3;  // of each: one of them serves, the others sleep
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (std::uint64_t n = 0; n < kItems; ++n) ASSERT_EQ(put(out, *get(in)), Outcome::kDone);
    });
  std::mutex mutex;
  std::multiset<std::uint64_t> got;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      for (std::uint64_t n = 0; n < kItems; ++n) {
        ASSERT_EQ(put(there, i * kItems + n), Outcome::kDone);
        const auto seed = get(back);
        const std::lock_guard lock(mutex);
        got.insert(*seed);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(got.size(), kThreads * kItems);
  EXPECT_EQ(std::set(got.begin(), got.end()).size(), kThreads * kItems);
}

}  // namespace
}  // namespace tensorbus
