// Samples of several topics, combined by their times.

#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <tensorbus/internal/time_matcher.hpp>

#include "support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

// One of the cases that Python has, too: time_matcher_cases.txt describes them.
struct Case {
  std::string name;
  std::size_t topics = 0;
  std::uint64_t tolerance = 0;
  std::uint32_t queue_size = 0;
  std::vector<std::string> lines{};  // samples, with the set that each completes, and `dropped`
};

std::vector<Case> cases() {
  std::vector<Case> found;
  std::ifstream file(TENSORBUS_TIME_MATCHER_CASES);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    if (!(words >> word) || word.starts_with('#')) continue;
    if (word == "case")
      found.push_back({.name = line.substr(5)});
    else if (word == "topics")
      words >> found.back().topics >> word >> found.back().tolerance >> word >>
          found.back().queue_size;
    else
      found.back().lines.push_back(line);
  }
  return found;
}

using Matcher = internal::TimeMatcher<std::int64_t>;  // the items are the times

std::uint64_t dropped(const Matcher::Topic& topic, const std::string& reason) {
  if (reason == "unmatched") return topic.unmatched;
  return reason == "overflowed" ? topic.overflowed : topic.late;
}

void expect_dropped(const Matcher& matcher, const std::string& line) {
  std::istringstream words(line);
  std::map<std::string, std::vector<std::uint64_t>> expected;
  std::string reason;
  words >> reason;  // "dropped"
  while (words >> reason)
    for (std::size_t i = 0; i < matcher.topics().size(); ++i)
      words >> expected[reason].emplace_back();
  for (const char* name : {"unmatched", "overflowed", "late"})
    for (std::size_t i = 0; i < matcher.topics().size(); ++i) {
      const auto& counts = expected[name];
      EXPECT_EQ(dropped(matcher.topics()[i], name), counts.empty() ? 0 : counts[i])
          << name << " of topic " << i;
    }
}

void expect_added(Matcher& matcher, const std::string& line) {
  std::istringstream words(line);
  std::size_t topic = 0;
  std::int64_t time = 0;
  words >> topic >> time;
  std::string arrow;
  words >> arrow;
  std::vector<std::int64_t> expected;
  for (std::int64_t each = 0; words >> each;) expected.push_back(each);
  std::vector<std::int64_t> set;
  EXPECT_EQ(matcher.add(topic, time, time, set), !expected.empty()) << line;
  EXPECT_EQ(set, expected) << line;
}

TEST(TimeMatcher, combines_as_python_does) {
  const std::vector<Case> all = cases();
  ASSERT_GT(all.size(), 15U);
  for (const Case& each : all) {
    SCOPED_TRACE(each.name);
    Matcher matcher(each.topics, each.tolerance, each.queue_size);
    std::string last = "dropped";
    for (const std::string& line : each.lines)
      if (line.starts_with("dropped"))
        last = line;
      else
        expect_added(matcher, line);
    expect_dropped(matcher, last);
  }
}

class Synchronized : public ::testing::Test {
 protected:
  Subscriber subscriber(const std::string& topic, SubscriberOptions options = {}) const {
    return Subscriber(topic, options, participant);
  }
  TimeSynchronizer pairs(TimeSynchronizerOptions options = {.time = "stamp"},
                         const SubscriberOptions& with = {}) {
    TimeSynchronizer made(std::move(options), subscriber("left", with), subscriber("right", with));
    EXPECT_EQ(left.wait_for_subscribers(1, kLong), Outcome::kDone);
    EXPECT_EQ(right.wait_for_subscribers(1, kLong), Outcome::kDone);
    return made;
  }
  static void publish(Publisher& publisher, const Value& stamp) {
    publisher.publish(Value::Map{{"stamp", stamp}}, {});
  }
  static std::vector<Value> stamps_of(const std::optional<std::vector<Sample>>& set) {
    std::vector<Value> stamps;
    if (set)
      for (const Sample& sample : *set) stamps.push_back(sample.fields().at("stamp"));
    return stamps;
  }

  const FreshDomain domain;
  const Participant participant = domain.join();
  Publisher left{"left", {.depth = 64}, participant};
  Publisher right{"right", {.depth = 64}, participant};
};

TEST_F(Synchronized, samples_come_with_equal_times) {
  TimeSynchronizer sets = pairs();
  publish(left, 1);
  publish(left, 2);
  EXPECT_FALSE(sets.try_receive());
  publish(right, 2);
  EXPECT_EQ(stamps_of(sets.receive(kLong)), (std::vector<Value>{2, 2}));
  const TimeSynchronizerStats stats = sets.stats();
  EXPECT_EQ(stats.sets, 1U);
  EXPECT_EQ(stats.topics[0].topic, "left");
  EXPECT_EQ(stats.topics[0].received, 2U);
  EXPECT_EQ(stats.topics[0].unmatched, 1U);
}

TEST_F(Synchronized, samples_come_with_similar_times) {
  TimeSynchronizer sets = pairs({.tolerance = 10ms, .time = "stamp"});
  publish(left, 1.0);
  publish(right, 1.02);
  publish(left, 1.03);
  EXPECT_EQ(stamps_of(sets.receive(kLong)), (std::vector<Value>{1.03, 1.02}));
}

TEST_F(Synchronized, samples_have_the_time_of_publishing_by_default) {
  TimeSynchronizer sets = pairs({.tolerance = kLong});
  publish(left, "left");
  publish(right, "right");
  EXPECT_EQ(stamps_of(sets.receive(kLong)), (std::vector<Value>{"left", "right"}));
}

TEST_F(Synchronized, samples_have_the_time_that_a_function_returns) {
  TimeSynchronizer sets = pairs({.time = [](const Sample& sample) {
    return sample.fields().at("stamp").as<std::int64_t>() / 10;
  }});
  publish(left, 11);
  publish(right, 19);
  EXPECT_EQ(stamps_of(sets.receive(kLong)), (std::vector<Value>{11, 19}));
}

TEST_F(Synchronized, a_sample_without_a_time_is_an_error_and_dropped) {
  TimeSynchronizer sets = pairs();
  for (const Value& wrong : {Value(), Value("1"), Value(true), Value(1e10),
                             Value(std::numeric_limits<double>::quiet_NaN()),
                             Value(std::numeric_limits<std::uint64_t>::max())}) {
    publish(left, wrong);
    EXPECT_EQ(code_of([&] { (void)sets.receive(kLong); }), Code::kTypeMismatch);
  }
  left.publish(Value(7), {});
  EXPECT_EQ(code_of([&] { (void)sets.receive(kLong); }), Code::kTypeMismatch);
  publish(left, 1);
  publish(right, 1);
  EXPECT_TRUE(sets.receive(kLong));
  EXPECT_EQ(sets.stats().topics[0].invalid, 7U);
}

TEST_F(Synchronized, a_silent_topic_bounds_the_memory) {
  TimeSynchronizer sets = pairs({.queue_size = 4, .time = "stamp"});
  for (int stamp = 0; stamp < 40; ++stamp) {
    publish(left, stamp);
    EXPECT_FALSE(sets.try_receive());
    EXPECT_LE(sets.stats().topics[0].waiting, 4U);
  }
  publish(right, 36);
  EXPECT_EQ(stamps_of(sets.receive(kLong)), (std::vector<Value>{36, 36}));
  const SynchronizedTopic counters = sets.stats().topics[0];
  // Samples that came late are dropped after the one of the other topic, as unmatched.
  EXPECT_EQ(counters.overflowed + counters.unmatched, 36U);
}

TEST_F(Synchronized, a_wait_ends_with_its_time_and_when_it_is_to_give_up) {
  TimeSynchronizer sets = pairs();
  std::vector<Sample> set;
  EXPECT_EQ(sets.receive(set, 0ns), Outcome::kTimedOut);
  EXPECT_EQ(sets.receive(set, 1ms), Outcome::kTimedOut);
  EXPECT_EQ(sets.receive(set, kLong, [] { return true; }), Outcome::kInterrupted);
}

TEST_F(Synchronized, a_wait_ends_when_another_thread_closes_it) {
  TimeSynchronizer sets = pairs();
  publish(left, 1);
  std::jthread closing([&] { sets.close(); });
  std::vector<Sample> set;
  EXPECT_EQ(sets.receive(set, kLong), Outcome::kClosed);
  EXPECT_FALSE(sets.receive(kLong));
  sets.close();
}

TEST_F(Synchronized, the_first_stream_that_ends_ends_the_sets) {
  TimeSynchronizer sets = pairs({.time = "stamp"}, {.end_of_stream = true});
  publish(left, 1);
  publish(left, 2);
  left.close();
  publish(right, 1);
  EXPECT_EQ(stamps_of(sets.receive(kLong)), (std::vector<Value>{1, 1}));
  std::vector<Sample> set;
  EXPECT_EQ(sets.receive(set, 1ms), Outcome::kTimedOut);  // a sample of the left still waits
  publish(right, 2);
  EXPECT_EQ(sets.receive(set, kLong), Outcome::kDone);
  EXPECT_EQ(sets.receive(set, kLong), Outcome::kClosed);
}

TEST_F(Synchronized, wrong_arguments_are_refused) {
  const auto made = [&](TimeSynchronizerOptions options, std::size_t count,
                        const SubscriberOptions& with) {
    std::vector<Subscriber> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(subscriber("topic", with));
    return code_of([&] { TimeSynchronizer(std::move(options), std::move(all)); });
  };
  EXPECT_EQ(made({}, 2, {}), std::nullopt);
  EXPECT_EQ(made({}, 1, {}), Code::kInvalidArgument);
  EXPECT_EQ(made({.tolerance = -1ns}, 2, {}), Code::kInvalidArgument);
  EXPECT_EQ(made({.queue_size = 0}, 2, {}), Code::kInvalidArgument);
  EXPECT_EQ(made({.queue_size = 8}, 2, {.max_held = 8}), Code::kInvalidArgument);
}

TEST_F(Synchronized, it_can_be_moved) {
  TimeSynchronizer from = pairs();
  publish(left, 1);
  EXPECT_FALSE(from.try_receive());
  TimeSynchronizer to = std::move(from);
  EXPECT_EQ(code_of([&] { (void)from.receive(0ns); }), Code::kClosed);
  publish(right, 1);
  EXPECT_TRUE(to.receive(kLong));
}

TEST_F(Synchronized, an_executor_calls_back_with_the_sets) {
  Executor executor;
  std::vector<Value> heard;
  const Executor::Token token = executor.on_samples(
      pairs(), [&](std::vector<Sample> set) { heard = stamps_of(std::move(set)); });
  publish(left, 1);
  publish(right, 1);
  while (heard.empty()) (void)executor.poll_once(kLong);
  EXPECT_EQ(heard, (std::vector<Value>{1, 1}));
  EXPECT_TRUE(executor.remove(token));
  EXPECT_TRUE(eventually([&] { return left.subscribers() == 0; }));
}

// Publishes a sample with each stamp that comes on the topic "stamps/" + its own.
int publish_stamps(const std::vector<std::string>& arguments) {
  const Participant participant({.domain = arguments.at(0)});
  Publisher publisher(arguments.at(1), {.depth = 64}, participant);
  Subscriber stamps("stamps/" + arguments.at(1), {.end_of_stream = true}, participant);
  while (const auto sample = stamps.receive(kLong))
    publisher.publish(Value::Map{{"stamp", sample->fields()}}, {});
  return 0;
}
const bool kPublishes = add_role("publish_stamps", publish_stamps);

TEST(SynchronizedProcesses, one_that_is_killed_is_replaced) {
  const FreshDomain domain;
  const Participant participant = domain.join();
  const std::vector<std::string> names = {"a", "b", "c"};
  std::vector<Publisher> stamps;
  std::vector<Subscriber> subscribers;
  for (const std::string& name : names) {
    stamps.emplace_back("stamps/" + name, PublisherOptions{.depth = 64}, participant);
    subscribers.emplace_back(name, SubscriberOptions{}, participant);
  }
  TimeSynchronizer sets({.queue_size = 4, .time = "stamp"}, std::move(subscribers));
  std::map<std::string, std::unique_ptr<Process>> processes;
  const auto start = [&](std::size_t i) {
    processes[names[i]] = std::make_unique<Process>(
        "publish_stamps", std::vector<std::string>{domain.path(), names[i]});
    ASSERT_EQ(stamps[i].wait_for_subscribers(1, kLong), Outcome::kDone);
  };
  for (std::size_t i = 0; i < names.size(); ++i) start(i);
  const auto receives = [&](int first) {  // late publishers are connected by now or soon
    for (int stamp = first; stamp < first + 1000; ++stamp) {
      for (Publisher& each : stamps) each.publish(Value(stamp), {});
      if (const auto set = sets.receive(10ms)) return (*set)[1].fields() == (*set)[2].fields();
    }
    return false;
  };
  EXPECT_TRUE(receives(0));
  processes["b"]->kill();
  ASSERT_TRUE(eventually([&] { return stamps[1].subscribers() == 0; }));
  while (sets.try_receive()) {
  }
  for (int stamp = 1000; stamp < 1020; ++stamp) {
    for (Publisher& each : stamps) each.publish(Value(stamp), {});
    const auto set = sets.receive(1ms);
    EXPECT_TRUE(!set || (*set)[0].fields().at("stamp").as<std::int64_t>() < 1000);
    for (const SynchronizedTopic& topic : sets.stats().topics) EXPECT_LE(topic.waiting, 4U);
  }
  start(1);
  EXPECT_TRUE(receives(2000));
  for (Publisher& each : stamps) each.close();
  for (auto& [name, process] : processes) EXPECT_EQ(process->wait(), 0) << name;
}

}  // namespace
}  // namespace tensorbus
