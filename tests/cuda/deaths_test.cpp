// Whoever dies, or leaves, while streams read and write what is lent.

#include <algorithm>
#include <string>
#include <vector>

#include "foreign.hpp"
#include "no_gpu_reader.hpp"
#include "tensorbus/platform/kill_point.hpp"

namespace tensorbus {
namespace {

using namespace testing;

class CudaDeaths : public InEachOrder {};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaDeaths, kEachOrder, name_of_order);

TEST(CudaDeathsAhead, who_waits_for_a_dead_publisher_goes_on_and_is_told) {
  const FreshDomain domain;
  while_the_first_is_killed(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        publish_filled(w.publisher, w.stream, 1);
        w.stream.synchronize();
        w.stream.pause();
        publish_filled(w.publisher, w.stream, 2);
        publish_filled(w.publisher, w.stream, 3);
        wait_for(wire);
        ::raise(SIGKILL);
      },
      [&](int wire) {
        Reader r(domain);
        const bus::Sample whole = r.next();
        const bus::Sample half = r.next();
        const Found found = read_on(r.stream, whole.tensor());
        (void)read_on(r.stream, half.tensor());
        tell(wire);
        EXPECT_TRUE(eventually([&] { return !half.tensor().intact(); }));
        r.stream.synchronize();
        EXPECT_EQ(*found, 1U);
        EXPECT_TRUE(whole.tensor().intact());
        EXPECT_FALSE(r.subscriber.try_receive()) << "the third was never written";
        EXPECT_EQ(r.subscriber.stats().gone, 1U);
      });
}

TEST_P(CudaDeaths, a_dead_subscribers_leases_come_back_whatever_its_streams_do) {
  const FreshDomain domain;
  while_the_first_is_killed(
      [&](int wire) {
        Reader r(domain);
        auto sample = r.subscriber.receive(kLong);
        ASSERT_TRUE(sample);
        r.stream.pause();
        (void)read_on(r.stream, sample->tensor());
        sample.reset();
        tell(wire);
        wait_for(wire);
        ::raise(SIGKILL);
      },
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        publish_filled(w.publisher, w.stream, 1);
        w.stream.synchronize();
        wait_for(wire);
        EXPECT_NE(w.used_bytes(), 0U);
        tell(wire);
        EXPECT_TRUE(eventually([&] { return w.used_bytes() == 0; }));
      });
}

TEST(CudaDeathsOnTheHost, who_waits_for_a_dead_publisher_goes_on_and_is_told) {
  const FreshDomain domain;
  ::setenv("TENSORBUS_CUDA_ORDER", "host", 1);
  while_the_first_is_killed(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        w.stream.pause();
        publish_filled(w.publisher, w.stream, 1);
        wait_for(wire);
        ::raise(SIGKILL);
      },
      [&](int wire) {
        Reader r(domain);
        const bus::Sample half = r.next();
        EXPECT_TRUE(half.tensor().intact());
        std::thread teller([&] { tell(wire); });  // about when we begin to wait
        half.tensor().use_on(r.stream.get());
        EXPECT_FALSE(half.tensor().intact());
        teller.join();
      });
  ::unsetenv("TENSORBUS_CUDA_ORDER");
}

// A publisher that is killed where it lends what another allocator keeps, or copies for a process
// that cannot use the GPU. These are the kill points that a process without a GPU does not pass;
// tests/system/steps_test.cpp has all others.
class CudaKillPoints : public ::testing::TestWithParam<std::string> {
 protected:
  bool foreign() const { return GetParam() == "export.lent"; }
};
INSTANTIATE_TEST_SUITE_P(
    Cuda, CudaKillPoints,
    ::testing::ValuesIn(std::vector<std::string>(platform::kKillPointsOfDevices.begin(),
                                                 platform::kKillPointsOfDevices.end())),
    [](const auto& point) {
      std::string name = point.param;
      std::replace(name.begin(), name.end(), '.', '_');
      return name;
    });

TEST_P(CudaKillPoints, a_death_leaves_the_subscriber_whole_and_the_topic_to_others) {
  const FreshDomain domain;
  while_the_first_is_killed(
      [&](int wire) {
        ::setenv("TENSORBUS_KILL_POINT", (GetParam() + ":1:kill").c_str(), 1);
        Writer w(domain, foreign() ? 0 : 1);
        w.wait_for_reader();
        wait_for(wire);
        if (foreign())
          publish(w, allocation(), 5);
        else
          publish_on(w, 1, 5);
        wait_for(wire);  // nobody tells: it is killed
      },
      [&](int wire) {
        ::setenv("TENSORBUS_CUDA_DRIVER", "off", 1);
        NoGpuReader reader(domain);
        ASSERT_EQ(reader.subscriber.wait_for_publishers(1, kLong), Outcome::kDone);
        tell(wire);
        EXPECT_TRUE(eventually([&] {
          // The copy may have come before the end.
          if (const auto sample = reader.subscriber.try_receive()) {
            EXPECT_EQ(seed_in(sample->tensor()), 5U);
          }
          return reader.subscriber.stats().publishers == 0;
        }));
        bus::Publisher other("frames", {}, reader.us);
        ASSERT_EQ(other.wait_for_subscribers(1, kLong), Outcome::kDone);
        bus::Loan loan = other.loan<std::uint64_t>({kWords});
        write_pattern(words_of(loan), 6);
        ASSERT_EQ(other.publish(std::move(loan)).outcome, Outcome::kDone);
        EXPECT_EQ(seed_in(reader.next().tensor()), 6U);
      });
}

// Lets go of all that it has, one after the other, with its kernel still to run.
void leave_while_reading(const FreshDomain& domain, int wire, bool whole_participant) {
  const TestStream stream;
  Found found;
  std::optional<bus::ParticipantRef> us = domain.join();
  std::optional<bus::Subscriber> subscriber(std::in_place, "frames", SubscriberOptions{}, *us);
  {
    const auto sample = subscriber->receive(kLong);
    ASSERT_TRUE(sample);
    stream.pause();
    found = read_on(stream, sample->tensor());
  }
  subscriber.reset();
  if (whole_participant) us.reset();
  tell(wire);
  wait_for(wire);
  stream.resume();
  stream.synchronize();
  EXPECT_EQ(*found, 3U);
  tell(wire);
  wait_for(wire);
}

class WhoLeaves : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(CudaBus, WhoLeaves, ::testing::Bool());

TEST_P(WhoLeaves, while_its_stream_reads_finds_what_was_published) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        publish_filled(w.publisher, w.stream, 3);
        wait_for(wire);
        EXPECT_TRUE(eventually([&] { return w.publisher.subscribers() == 0; }));
        for (std::uint64_t seed = 100; seed < 105; ++seed)
          publish_filled(w.publisher, w.stream, seed);
        w.stream.synchronize();
        EXPECT_NE(w.used_bytes(), 0U);
        tell(wire);
        wait_for(wire);
        EXPECT_TRUE(eventually([&] { return w.used_bytes() == 0; }));
        tell(wire);
      },
      [&](int wire) { leave_while_reading(domain, wire, GetParam()); });
}

TEST_P(WhoLeaves, while_its_stream_waits_is_let_go_on_when_the_publisher_dies) {
  const FreshDomain domain;
  while_the_first_is_killed(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        w.stream.pause();
        publish_filled(w.publisher, w.stream, 1);
        wait_for(wire);
        ::raise(SIGKILL);
      },
      [&](int wire) {
        const TestStream stream;
        std::optional<bus::ParticipantRef> us = domain.join();
        std::optional<bus::Subscriber> subscriber(std::in_place, "frames", SubscriberOptions{},
                                                  *us);
        auto sample = subscriber->receive(kLong);
        ASSERT_TRUE(sample);
        (void)read_on(stream, sample->tensor());
        sample.reset();
        subscriber.reset();
        if (GetParam()) us.reset();
        EXPECT_FALSE(stream.idle());
        tell(wire);
        stream.synchronize();
      });
}

TEST_P(CudaDeaths, a_publisher_that_leaves_has_its_kernels_write_to_the_end) {
  const FreshDomain domain;
  in_process([&] {
    const TestStream stream;
    stream.pause();
    {
      bus::Publisher publisher("frames", {}, domain.join());
      publish_filled(publisher, stream, 1);
    }
    stream.resume();
    stream.synchronize();
    EXPECT_TRUE(eventually([] { return standin_open_mappings() == 0; }));
  });
}

}  // namespace
}  // namespace tensorbus
