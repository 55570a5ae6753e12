// What a recorder takes when its buffer has been full for a while.
#include "tensorbus/recording/record_collector.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "tensorbus/bus/inspection.hpp"
#include "tensorbus/bus/publish/outgoing_sample.hpp"
#include "tests/unit/bus/test_support.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::recording {
namespace {

using namespace tensorbus::testing;

constexpr std::uint64_t kRoom = std::uint64_t{1} << 20;
constexpr std::uint32_t kDepth = 8;

class ARecordCollector : public ::testing::Test {
 protected:
  // Runs until `body` returns, and then takes what is left.
  template <typename Body>
  void while_it_runs(CollectorOptions options, Body body) {
    options.reliable = true;
    options.depth = kDepth;
    RecordCollector collector(std::move(options), recording, buffer);
    std::thread thread([&] { collector.run(); });
    body(collector);
    collector.end();
    make_room();
    thread.join();
    buffer.close();
  }
  // Returns when it waits for room in the buffer, until make_room().
  void hold_up(const std::string& topic) {
    RecordedSample whole{.bytes = kRoom};
    ASSERT_TRUE(buffer.put(whole, false));
    // The last one has room when the first was taken.
    publish_patterns(publisher_on(topic, {.reliable = true, .timeout = kLong}), 0, kDepth + 1);
  }
  void make_room() {
    if (buffer.bytes() < kRoom) return;
    EXPECT_EQ(buffer.take().size(), 1U);
    buffer.release(kRoom);
  }
  bus::Publisher& publisher_on(const std::string& topic, PublisherOptions options = {}) {
    bus::Publisher& publisher = publishers.emplace_back(topic, options, owner);
    EXPECT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
    return publisher;
  }
  static std::vector<std::string> topics(const std::string& name, int count) {
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) names.push_back(name + std::to_string(i));
    return names;
  }
  std::size_t connected_publishers() const {
    std::size_t count = 0;
    for (const ParticipantReport& report : bus::inspect(domain.path(), kLong).participants)
      for (const SubscriberReport& subscriber : report.subscribers)
        count += subscriber.publishers.size();
    return count;
  }
  std::size_t taken() {
    std::size_t count = 0;
    while (!buffer.ended()) count += buffer.take().size();
    return count;
  }

  const FreshDomain domain;
  const bus::ParticipantRef owner = domain.join();
  const bus::ParticipantRef recording = domain.join();
  RecordBuffer buffer{kRoom};
  std::deque<bus::Publisher> publishers;
};

TEST_F(ARecordCollector, subscribes_to_topics_that_appear_while_it_looks_at_others) {
  while_it_runs({.topics = topics("some/", 40), .all = true}, [&](RecordCollector& collector) {
    hold_up("some/0");
    // It has not heard of this publisher yet, and so looks who else there is.
    publish_patterns(publisher_on("some/0"), 0, 1);
    for (const std::string& topic : topics("more/", 64))
      publishers.emplace_back(topic, PublisherOptions{}, owner);
    collector.look(0ns);  // it is wanted
    make_room();
    EXPECT_TRUE(eventually([&] { return collector.topics() == 40 + 64; }));
  });
  EXPECT_EQ(taken(), kDepth + 1 + 1);
}

TEST_F(ARecordCollector, takes_at_its_end_what_is_left_of_publishers_that_have_ended) {
  while_it_runs({.topics = {"one", "two"}}, [&](RecordCollector&) {
    hold_up("one");
    for (int i = 0; i < 3; ++i) publish_patterns(publisher_on("two"), 0, kDepth);
    while (publishers.size() > 1) publishers.pop_back();
    EXPECT_TRUE(eventually([&] { return connected_publishers() == 1; }));
  });
  EXPECT_EQ(taken(), kDepth + 1 + 3 * kDepth);
}

TEST_F(ARecordCollector, takes_nothing_that_is_published_after_its_end) {
  RecordCollector collector({.topics = {"one"}, .reliable = true, .depth = kDepth}, recording,
                            buffer);
  bus::Publisher& publisher = publisher_on("one", {.reliable = true, .timeout = kLong});
  ASSERT_TRUE(eventually([&] { return connected_publishers() == 1; }));
  publish_patterns(publisher, 0, 3);
  collector.end();
  publish_patterns(publisher, 3, 4);
  collector.end();
  collector.run();
  buffer.close();
  EXPECT_EQ(taken(), 3U);
  EXPECT_EQ(collector.lost(), 0U);
}

TEST_F(ARecordCollector, takes_what_a_publisher_that_ends_after_it_has_left) {
  RecordCollector collector({.topics = {"one"}, .reliable = true, .depth = kDepth}, recording,
                            buffer);
  publish_patterns(publisher_on("one", {.reliable = true, .timeout = kLong}), 0, 3);
  ASSERT_TRUE(eventually([&] { return connected_publishers() == 1; }));
  collector.end();
  publishers.clear();
  ASSERT_TRUE(eventually([&] { return connected_publishers() == 0; }));
  collector.run();
  buffer.close();
  EXPECT_EQ(taken(), 3U);
  EXPECT_EQ(collector.lost(), 0U);
}

TEST_F(ARecordCollector, counts_what_a_fast_publisher_drops_after_its_end) {
  RecordCollector collector({.topics = {"one"}, .depth = kDepth}, recording, buffer);
  bus::Publisher& publisher = publisher_on("one");
  ASSERT_TRUE(eventually([&] { return connected_publishers() == 1; }));
  publish_patterns(publisher, 0, 3);
  collector.end();
  publish_patterns(publisher, 3, 3 * kDepth);
  collector.run();
  buffer.close();
  EXPECT_EQ(collector.lost(), 3U);
  const std::vector<RecordedSample> written = buffer.take();
  ASSERT_EQ(written.size(), 1U);
  EXPECT_FALSE(written[0].has_sample);
  EXPECT_EQ(written[0].lost, 3U);
}

TEST_F(ARecordCollector, counts_what_it_missed_of_a_publisher_that_cut_it_off_and_closed) {
  std::uint64_t all = 0;
  std::uint64_t lost = 0;
  while_it_runs({.topics = {"one"}}, [&](RecordCollector& collector) {
    RecordedSample whole{.bytes = kRoom};
    ASSERT_TRUE(buffer.put(whole, false));
    bus::Publisher& publisher =
        publisher_on("one", {.reliable = true, .timeout = kLong, .lag_timeout = 20ms});
    while (publisher.stats().cut_off == 0) publish_patterns(publisher, all++, 1);
    publishers.clear();
    make_room();
    EXPECT_TRUE(eventually([&] { return collector.lost() > 0; }));
    lost = collector.lost();
  });
  std::uint64_t told = 0;
  std::size_t samples = 0;
  while (!buffer.ended())
    for (const RecordedSample& one : buffer.take()) {
      told += one.lost;
      samples += one.has_sample ? 1 : 0;
    }
  EXPECT_EQ(samples + lost, all);
  EXPECT_EQ(told, lost);
}

TEST_F(ARecordCollector, counts_nothing_that_a_mirror_has_not_had_before_its_first_sample) {
  bus::Publisher mirror("one", {.reliable = true, .timeout = kLong}, owner,
                        {"robot", "00112233445566778899aabbccddeeff.7"});
  std::uint64_t lost = 0;
  while_it_runs({.topics = {"one"}}, [&](RecordCollector& collector) {
    EXPECT_EQ(mirror.wait_for_subscribers(1, kLong), Outcome::kDone);
    const std::vector<std::byte> fields = Value(std::int64_t{1}).encode();
    Message message;
    message.fields = fields;
    for (const std::uint64_t sequence : {1000U, 1003U})
      EXPECT_EQ(mirror.publish_as(message, {sequence, sequence}, kLong).outcome, Outcome::kDone);
    collector.look(kLong);
    EXPECT_TRUE(eventually([&] { return collector.lost() > 0; }));
    lost = collector.lost();
  });
  EXPECT_EQ(lost, 2U);
}

TEST_F(ARecordCollector, goes_on_with_other_topics_while_one_waits_for_a_snapshot) {
  constexpr std::uint64_t kMax = 16'384;  // that it may hold of a publisher
  RecordBuffer keeping(std::uint64_t{1} << 30, std::uint64_t{3600} * 1'000'000'000);
  RecordCollector collector({.topics = {"fast", "slow"}, .reliable = true, .depth = kDepth},
                            recording, keeping);
  std::thread thread([&] { collector.run(); });
  const PublisherOptions reliable{.reliable = true, .timeout = kLong};
  publish_patterns(publisher_on("fast", reliable), 0, 1);
  publisher_on("slow", reliable);
  EXPECT_TRUE(eventually([&] { return keeping.bytes() > 0; }));
  const std::uint64_t bytes = kMax * keeping.bytes();
  publish_patterns(publishers[0], 1, kMax - 1);
  EXPECT_TRUE(eventually([&] { return keeping.bytes() == bytes; }));
  EXPECT_EQ(keeping.request_snapshot(0), 1U);
  auto snapshot = keeping.take_snapshot();
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->size(), kMax);
  publish_patterns(publishers[0], 0, kDepth);
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t before = keeping.bytes();
    publish_patterns(publishers[1], 0, 1);
    EXPECT_TRUE(eventually([&] { return keeping.bytes() > before; }));
  }
  snapshot.reset();
  keeping.release(bytes);
  collector.end();
  thread.join();
  EXPECT_EQ(collector.lost(), 0U);
}

// A sample comes that cannot be mapped. Returns true if the collector ends, and says why.
bool ends_for_want_of_memory(bool is_ended) {
  const FreshDomain domain;
  const bus::ParticipantRef owner = domain.join();
  const bus::ParticipantRef recording = domain.join();
  RecordBuffer buffer(std::uint64_t{1} << 30);
  RecordCollector collector({.topics = {"one"}, .reliable = true, .depth = kDepth}, recording,
                            buffer);
  bus::Publisher publisher("one", {.reliable = true, .timeout = kLong}, owner);
  if (publisher.wait_for_subscribers(1, kLong) != Outcome::kDone) return false;
  bus::Loan loan = pattern_loan(publisher, 1, (std::size_t{64} << 20) / 8);
  std::atomic<bool> over = false;
  std::string why;
  std::thread thread([&] {
    try {
      collector.run();
    } catch (const Error& error) {
      why = error.what();
    }
    over = true;
  });
  publish_pattern(publisher, 0);
  if (!eventually([&] { return buffer.bytes() > 0; })) return false;
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = mapped_bytes() + (std::size_t{2} << 20);
  ::setrlimit(RLIMIT_AS, &limit);
  (void)publisher.publish(std::move(loan));
  if (is_ended) collector.end();
  const bool ends = eventually([&] { return over.load(); });
  if (!ends) ::_exit(1);
  thread.join();
  return why.find("RLIMIT_AS") != std::string::npos;
}

TEST(ARecordCollectorForWantOfMemory, ends_with_the_reason) {
  if (kSanitized) GTEST_SKIP() << "RLIMIT_AS is not for sanitizers";
  test::Child running([] { return ends_for_want_of_memory(false); });
  test::Child ended([] { return ends_for_want_of_memory(true); });
  EXPECT_EQ(running.wait(), "exit 0");
  EXPECT_EQ(ended.wait(), "exit 0");
}

}  // namespace
}  // namespace tensorbus::recording
