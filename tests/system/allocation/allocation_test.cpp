// Every allocation of every operation fails once, and all from then on: the operation throws
// Error(kOutOfMemory) or does without, nothing is lost or leaked, and then it works.

#include <gtest/gtest.h>

#include <array>

#include "failing_new.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

constexpr std::size_t kTooMany = 5000;

// Runs `operation` with one allocation after the other failing; `after` is told whether it threw.
template <typename Operation, typename After>
void fail_each_allocation(Operation operation, After after) {
  for (const Fails fails : {Fails::kOnce, Fails::kFromThenOn}) {
    bool failed = true;
    for (std::size_t n = 0; failed; ++n) {
      ASSERT_LT(n, kTooMany);
      SCOPED_TRACE("allocation " + std::to_string(n));
      std::optional<Code> code;
      fail_allocation(Whose::kMine, fails, n);
      try {
        operation();
      } catch (const Error& error) {
        code = error.code();
      }
      failed = stop_failing();
      if (code) {
        EXPECT_EQ(*code, Code::kOutOfMemory);
      }
      if (!failed) {
        EXPECT_FALSE(code);
      }
      after(code.has_value());
      if (::testing::Test::HasFailure()) return;
    }
  }
}

class Allocation : public ::testing::Test {
 protected:
  const FreshDomain domain;
};

TEST_F(Allocation, that_fails_while_joining_leaves_nothing_behind) {
  ParticipantOptions options;
  options.domain = domain.path();
  {
    const bus::ParticipantRef first = bus::make_participant(options);
  }  // what a process has once, for its forked children
  const std::size_t open = open_descriptors();
  fail_each_allocation(
      [&] { const bus::ParticipantRef participant = bus::make_participant(options); },
      [&](bool) {
        EXPECT_EQ(domain.files(), std::set<std::string>());
        EXPECT_EQ(open_descriptors(), open);
      });
}

class OneProcess : public Allocation {
 protected:
  static ParticipantOptions small_segments() {
    ParticipantOptions options;
    options.segment_bytes = std::size_t{1} << 20;
    options.warm_bytes = 0;
    return options;
  }
  std::size_t used() { return used_bytes(here, {&publisher}); }
  void connect(bus::Subscriber& subscriber) {
    ASSERT_EQ(subscriber.wait_for_publishers(1, kLong), Outcome::kDone);
  }
  // The next sample arrives, and when it is let go nothing is in use.
  void works(bus::Subscriber& subscriber) {
    const std::uint64_t seed = next_++;
    ASSERT_EQ(publish_pattern(publisher, seed).outcome, Outcome::kDone);
    EXPECT_EQ(next_seeds(subscriber, 1), Seeds{seed});
    EXPECT_EQ(used(), 0U);
  }

  const bus::ParticipantRef here = domain.join(small_segments());
  const bus::ParticipantRef there = domain.join();
  bus::Publisher publisher{"topic", {.depth = 2, .shared = true}, here};
  std::uint64_t next_ = 1'000'000;
};

TEST_F(OneProcess, makes_publishers_and_subscribers_that_leave_nothing_behind) {
  const std::set<std::string> files = domain.files();
  fail_each_allocation([&] { const bus::Publisher another("elsewhere", {}, here); },
                       [&](bool) { EXPECT_EQ(domain.files(), files); });
  fail_each_allocation([&] { const bus::Subscriber another("elsewhere", {}, here); }, [](bool) {});
  bus::Subscriber subscriber("topic", {}, there);
  connect(subscriber);
  works(subscriber);
}

// Publishes with `publish`, which makes a sample of this seed.
class Publishing : public OneProcess {
 protected:
  template <typename Publish>
  void all_or_nothing(Publish publish) {
    bus::Subscriber first("topic", {}, there);
    bus::Subscriber second("topic", {}, there);
    connect(first);
    connect(second);
    std::uint64_t seed = 0;
    fail_each_allocation([&] { publish(++seed); },
                         [&](bool threw) {
                           // One that there was no memory to pass on to is counted.
                           const PublisherStats stats = publisher.stats();
                           const auto unsent =
                               stats.dropped_unsent - std::exchange(unsent_, stats.dropped_unsent);
                           const std::size_t expected = threw ? 0 : 2 - unsent;
                           Seeds seeds;
                           EXPECT_TRUE(eventually([&] {  // their segment may be on its way still
                             for (bus::Subscriber* subscriber : {&first, &second})
                               for (const auto& came : seeds_now(*subscriber))
                                 seeds.push_back(came);
                             return seeds.size() == expected;
                           }));
                           EXPECT_EQ(seeds, Seeds(expected, seed));
                           EXPECT_EQ(used(), 0U);
                         });
    publish(++seed);
    EXPECT_EQ(next_seeds(first, 1), Seeds{seed});
    EXPECT_EQ(next_seeds(second, 1), Seeds{seed});
    EXPECT_EQ(used(), 0U);
  }
  std::uint64_t unsent_ = 0;
};

TEST_F(Publishing, of_a_loan_reaches_all_or_nobody) {
  all_or_nothing([&](std::uint64_t seed) { publish_pattern(publisher, seed); });
}

TEST_F(Publishing, of_a_loan_that_needs_a_segment_reaches_all_or_nobody) {
  all_or_nothing([&](std::uint64_t seed) { publish_pattern(publisher, seed, 300'000); });
}

TEST_F(Publishing, of_a_copy_reaches_all_or_nobody) {
  std::vector<std::uint64_t> words(1000);
  const TensorView view = TensorView::of(words.data(), {10, 1, 1, 1, 1, 1, 100});
  all_or_nothing([&](std::uint64_t seed) {
    write_pattern(words, seed);
    publisher.publish(view);
  });
}

TEST_F(Publishing, of_loans_and_copies_in_one_message_leaves_the_loans_to_be_published) {
  bus::Subscriber subscriber("topic", {}, there);
  connect(subscriber);
  const std::vector<std::uint64_t> own(1000);
  const Value fields = Value::Map{{"one", TensorIndex{0}}, {"two", TensorIndex{1}}};
  std::vector<bus::Loan> loans;
  std::vector<TensorView> tensors;
  const auto publish = [&] { return publisher.publish(fields, tensors); };
  const auto renew = [&] {
    loans.clear();
    for (std::uint64_t seed = 0; seed < 3; ++seed) loans.push_back(pattern_loan(publisher, seed));
    tensors = {loans[0].view(), loans[1].view(), loans[2].view(),
               TensorView::of(own.data(), {1000})};
  };
  renew();
  fail_each_allocation([&] { publish(); },
                       [&](bool threw) {
                         if (threw) {
                           EXPECT_EQ(publish().outcome, Outcome::kDone);
                         }
                         while (subscriber.try_receive()) {
                         }
                         renew();
                       });
  const std::uint64_t last = publish().sequence;
  std::uint64_t came = 0;
  while (came != last) came = subscriber.receive(kLong).value().header().sequence;
  loans.clear();
  works(subscriber);
}

TEST_F(Publishing, that_fails_is_not_in_the_history) {
  bus::Publisher keeper("kept", {.depth = 100, .history = 100}, here);
  Seeds expected;
  std::uint64_t seed = 0;
  fail_each_allocation([&] { publish_pattern(keeper, ++seed); },
                       [&](bool threw) {
                         if (!threw) expected.emplace_back(seed);
                       });
  bus::Subscriber subscriber("kept", {}, there);
  EXPECT_EQ(next_seeds(subscriber, expected.size()), expected);
}

TEST_F(Publishing, reliably_reaches_everybody_or_throws) {
  bus::Publisher reliable("reliable", {.depth = 4, .reliable = true}, here);
  bus::Subscriber first("reliable", {}, there);
  bus::Subscriber second("reliable", {}, here);
  ASSERT_EQ(reliable.wait_for_subscribers(2, kLong), Outcome::kDone);
  std::uint64_t seed = 0;
  fail_each_allocation([&] { publish_pattern(reliable, ++seed, 300'000); },
                       [&](bool threw) {
                         const Seeds expected = threw ? Seeds{} : Seeds{seed};
                         for (bus::Subscriber* subscriber : {&first, &second})
                           EXPECT_EQ(threw ? seeds_now(*subscriber) : next_seeds(*subscriber, 1),
                                     expected);
                       });
  EXPECT_EQ(reliable.stats().dropped_unsent, 0U);
}

class ReceiveOptions : public OneProcess, public ::testing::WithParamInterface<Access> {};

TEST_P(ReceiveOptions, loses_no_sample) {
  bus::Subscriber subscriber("topic", {.access = GetParam()}, there);
  connect(subscriber);
  const std::vector<std::uint64_t> own(1000);
  std::uint64_t seed = 0;
  bus::Sample sample;
  const auto publish = [&] {
    const bus::Loan loan = pattern_loan(publisher, ++seed);
    publisher.publish(Value::Map{{"field", "a text that does not fit into the entry itself"}},
                      {loan.view(), TensorView::of(own.data(), {10, 1, 1, 1, 1, 1, 100})});
  };
  const auto seed_in = [](const bus::Sample& of) {
    return seed_of(of.tensors().front().as<std::uint64_t>());
  };
  publish();
  fail_each_allocation([&] { ASSERT_EQ(subscriber.receive(sample, kLong), Outcome::kDone); },
                       [&](bool threw) {
                         if (threw) {
                           ASSERT_EQ(subscriber.receive(sample, kLong), Outcome::kDone);
                         }
                         EXPECT_EQ(seed_in(sample), seed);
                         sample = bus::Sample();
                         EXPECT_EQ(used(), 0U);
                         publish();
                       });
  ASSERT_EQ(subscriber.receive(sample, kLong), Outcome::kDone);
  fail_each_allocation([&] { EXPECT_EQ(seed_in(sample.copy()), seed); }, [](bool) {});
  fail_each_allocation([&] { (void)sample.fields(); }, [](bool) {});
  sample = bus::Sample();
  works(subscriber);
  EXPECT_EQ(subscriber.stats().bad, 0U);
}

INSTANTIATE_TEST_SUITE_P(With, ReceiveOptions,
                         ::testing::Values(Access::kRead, Access::kPrivate, Access::kShared));

TEST_F(OneProcess, receives_the_rest_of_a_batch_that_memory_was_too_short_for) {
  bus::Subscriber subscriber("topic", {.depth = 8}, there);
  connect(subscriber);
  const auto publish = [&] {
    for (std::int64_t number = 0; number < 3; ++number) {
      publish_pattern(publisher, static_cast<std::uint64_t>(number));
      publisher.publish(Value(number), {});
    }
  };
  std::array<bus::Sample, 8> samples;
  std::size_t count = 0;
  const auto receive = [&] {
    ASSERT_EQ(subscriber.receive_many(samples, count, kLong), Outcome::kDone);
  };
  publish();
  fail_each_allocation(receive, [&](bool threw) {
    EXPECT_EQ(threw, count == 0);
    std::size_t came = 0;
    while (true) {
      for (const bus::Sample& sample : std::span(samples).first(count)) {
        const auto number = sample.tensors().empty()
                                ? static_cast<std::uint64_t>(sample.fields().as<std::int64_t>())
                                : seed_of(sample);
        EXPECT_EQ(number, came++ / 2);
      }
      if (came == 6 || ::testing::Test::HasFailure()) break;
      receive();
    }
    for (bus::Sample& sample : samples)
      sample = bus::Sample();  // so that their memory is made anew
    EXPECT_EQ(used(), 0U);
    publish();
  });
  EXPECT_EQ(next_seeds(subscriber, 1), Seeds{0});
  EXPECT_EQ(subscriber.stats().bad, 0U);
}

TEST_F(OneProcess, gives_back_memory_without_taking_any) {
  bus::Subscriber subscriber("topic", {}, there);
  connect(subscriber);
  std::vector<bus::Loan> loans;
  std::vector<bus::Sample> samples;
  const auto take = [&] {
    for (std::uint64_t seed = 0; seed < 2; ++seed) {
      loans.push_back(pattern_loan(publisher, seed, 50'000));
      publish_pattern(publisher, seed, 200'000);  // a segment of its own
      samples.push_back(*subscriber.receive(kLong));
    }
  };
  take();
  fail_each_allocation(
      [&] {
        loans.erase(loans.begin());  // not in the order in which they were taken
        samples.clear();
        (void)publisher.stats();
        loans.clear();
      },
      [&](bool threw) {
        EXPECT_FALSE(threw);
        EXPECT_EQ(used(), 0U);
        take();
      });
}

TEST_F(OneProcess, closes_without_memory) {
  std::optional<bus::Publisher> closing;
  std::optional<bus::Subscriber> subscriber;
  std::vector<bus::Sample> held;
  const auto open = [&] {
    closing.emplace("closing", PublisherOptions{.depth = 4, .history = 2}, here);
    subscriber.emplace("closing", SubscriberOptions{}, there);
    ASSERT_EQ(closing->wait_for_subscribers(1, kLong), Outcome::kDone);
    publish_patterns(*closing, 1, 3);
    held.push_back(*subscriber->receive(kLong));
  };
  const std::set<std::string> files = domain.files();
  for (const bool publisher_first : {true, false}) {
    open();
    fail_each_allocation(
        [&] {
          if (publisher_first) closing.reset();
          subscriber.reset();
          held.clear();
          closing.reset();
        },
        [&](bool threw) {
          EXPECT_FALSE(threw);
          EXPECT_EQ(domain.files(), files);
          EXPECT_TRUE(eventually([&] { return used() == 0; }));
          open();
        });
    closing.reset();
    subscriber.reset();
    held.clear();
  }
}

TEST_F(OneProcess, learns_each_end_of_a_publisher_once) {
  bus::Subscriber subscriber("ending", {}, there);
  fail_each_allocation([&] { subscriber.watch_publisher_ends(); }, [](bool) {});
  bus::Sample sample;
  std::vector<bus::PublisherEnd> ends;
  const auto end_one = [&] {
    {
      bus::Publisher closing("ending", {}, here);
      connect(subscriber);
      publish_patterns(closing, 1, 1);
    }
    ASSERT_TRUE(eventually([&] { return subscriber.stats().publishers == 0; }));
  };
  const auto receive = [&] {
    while (ends.empty())
      if (subscriber.receive(sample, kLong) == Outcome::kInterrupted)
        ends = subscriber.take_publisher_ends();
  };
  end_one();
  fail_each_allocation(receive, [&](bool threw) {
    if (threw) receive();
    EXPECT_EQ(ends.size(), 1U);
    EXPECT_EQ(seed_of(sample), 1U);
    sample = bus::Sample();
    ends.clear();
    end_one();
  });
}

// The thread of the subscriber's participant meets the failure.
TEST_F(Allocation, that_fails_when_a_participant_ends_loses_no_end_of_a_publisher) {
  const bus::ParticipantRef there = domain.join();
  std::vector<bus::Subscriber> subscribers;
  for (int i = 0; i < 2; ++i) {
    subscribers.emplace_back("ending", SubscriberOptions{}, there);
    subscribers.back().watch_publisher_ends();
  }
  for (const Fails fails : {Fails::kOnce, Fails::kFromThenOn}) {
    bool failed = true;
    for (std::size_t n = 0; failed; ++n) {
      ASSERT_LT(n, kTooMany);
      SCOPED_TRACE("allocation " + std::to_string(n));
      {
        const bus::ParticipantRef brief = domain.join();
        const bus::Publisher one("ending", {}, brief);
        const bus::Publisher two("ending", {}, brief);
        for (bus::Subscriber& subscriber : subscribers)
          ASSERT_EQ(subscriber.wait_for_publishers(2, kLong), Outcome::kDone);
        fail_allocation(Whose::kService, fails, n);
      }
      ASSERT_TRUE(eventually([&] {
        return allocation_failed() ||
               (subscribers[0].stats().publishers == 0 && subscribers[1].stats().publishers == 0);
      }));
      if (fails == Fails::kFromThenOn && allocation_failed())
        std::this_thread::sleep_for(2ms);  // it meets the next ones
      failed = stop_failing();
      for (bus::Subscriber& subscriber : subscribers) {
        std::size_t ends = 0;
        EXPECT_TRUE(eventually([&] {
          (void)subscriber.try_receive();
          ends += subscriber.take_publisher_ends().size();
          return ends >= 2;
        }));
        EXPECT_EQ(ends, 2U);
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
}

// The thread of a participant meets the failure: of both, since they are in this process.
TEST_F(Allocation, that_fails_in_the_thread_of_a_participant_delays_a_connection_only) {
  const bus::ParticipantRef here = domain.join();
  const bus::ParticipantRef there = domain.join();
  std::size_t open = 0;
  for (const Fails fails : {Fails::kOnce, Fails::kFromThenOn}) {
    bool failed = true;
    for (std::size_t n = 0; failed; ++n) {
      ASSERT_LT(n, kTooMany);
      SCOPED_TRACE("allocation " + std::to_string(n));
      {
        bus::Publisher publisher("topic", {.depth = 4, .history = 1}, here);
        publish_patterns(publisher, 1, 1);
        fail_allocation(Whose::kService, fails, n);
        bus::Subscriber subscriber("topic", {}, there);
        ASSERT_TRUE(
            eventually([&] { return allocation_failed() || subscriber.stats().publishers == 1; }));
        if (fails == Fails::kFromThenOn && allocation_failed())
          std::this_thread::sleep_for(2ms);  // it meets the next ones
        failed = stop_failing();
        ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
        publish_patterns(publisher, 2, 1);
        ASSERT_EQ(next_seeds(subscriber, 2), seeds_from(1, 2));
      }
      if (open == 0) open = open_descriptors();
      ASSERT_TRUE(eventually([&] { return open_descriptors() <= open; }));
      ASSERT_TRUE(eventually([&] { return here->memory_use().used_bytes == 0; }));
    }
  }
}

}  // namespace
}  // namespace tensorbus
