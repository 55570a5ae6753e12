// A getter dies, or is stopped, at each step of a get through the get ring. It has what it
// had taken by then, and nothing else.

#include <tuple>
#include <vector>

#include "support.hpp"
#include "tensorbus/bus/queue.hpp"
#include "tests/system/queue_numbers.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

constexpr int kItemsAtOnce = 300;  // more than the ring has slots
constexpr int kEndless = 1 << 30;

struct GetPlace {
  const char* step = "";
  int passage = 0;
  bool has_it = false;  // at this step the item is the getter's
  bool redeliver = false;
  bool with_tensors = false;
};

void PrintTo(const GetPlace& place, std::ostream* to) {  // NOLINT(readability-identifier-naming)
  *to << place.step << ':' << place.passage << (place.redeliver ? ", redeliver" : "")
      << (place.with_tensors ? ", tensors" : "");
}

class Getting : public ::testing::TestWithParam<GetPlace> {
 protected:
  std::string order(const std::string& action) const {
    return GetParam().step + (":" + std::to_string(GetParam().passage) + ":" + action);
  }
  void put_some() {
    for (int i = 0; i < kItemsAtOnce; ++i, ++put)
      ASSERT_EQ(put_number(queue, static_cast<std::uint64_t>(put), GetParam().with_tensors, 0s),
                Outcome::kDone);
  }
  std::vector<int> get_rest() {
    std::vector<int> got;
    bus::Sample sample;
    while (queue.get(sample, 0s) == Outcome::kDone) {
      const auto number = number_of(sample);
      EXPECT_TRUE(number);
      got.push_back(static_cast<int>(number.value_or(0)));
    }
    return got;
  }
  std::vector<int> from(int first) const {
    std::vector<int> all;
    for (int number = first; number < put; ++number) all.push_back(number);
    return all;
  }
  void tell_to_get(Peer& getter, int count = kEndless) const {
    getter.tell("get " + queue.address() + " count=" + std::to_string(count));
  }
  // Puts items until the getter dies: some of them go by message, without these steps. Returns how
  // many the getter has said that it has.
  int said_until_it_died(Peer& getter) {
    int count = 0;
    while (getter.reply() == std::to_string(count))
      if (++count == put) put_some();
    return count;
  }
  // Puts items until the getter is stopped. Returns how many it has taken by then.
  int taken_until_it_stopped(Peer& getter) {
    EXPECT_TRUE(eventually([&] {
      if (queue.stats().items == 0) put_some();
      return getter.has_stopped();
    }));
    return put - static_cast<int>(queue.stats().items);
  }

  bool all_memory_comes_back() const {
    return eventually([&] { return server->memory_use().used_bytes == 0; });
  }

  const FreshDomain domain;
  const bus::ParticipantRef server = domain.join();
  bus::Queue queue{{.redeliver = GetParam().redeliver}, server};
  int put = 0;  // the number of items so far
};

TEST_P(Getting, a_dead_getter_has_what_it_had_taken) {
  put_some();
  Peer getter(domain, order("kill"));
  tell_to_get(getter);
  const int had = said_until_it_died(getter) + (GetParam().has_it ? 1 : 0);
  ASSERT_TRUE(eventually([&] { return getter.has_ended(); }));
  const int left = GetParam().redeliver ? put : put - had;
  EXPECT_TRUE(eventually([&] {
    return queue.stats().lost == (GetParam().redeliver ? 0U : 1U) &&  // finished with the others
           queue.stats().items == static_cast<unsigned>(left);
  }));
  EXPECT_EQ(get_rest(), from(put - left));
  EXPECT_TRUE(GetParam().redeliver || all_memory_comes_back());
}

TEST_P(Getting, others_go_on_beside_a_stopped_getter) {
  put_some();
  Peer stopped(domain, order("stop"));
  tell_to_get(stopped);
  const int taken = taken_until_it_stopped(stopped);
  Peer other(domain);
  tell_to_get(other, put - taken);
  for (const int number : from(taken)) EXPECT_EQ(other.reply(), std::to_string(number));
  EXPECT_EQ(other.reply(), "ok");
  stopped.signal(SIGCONT);
  for (int number = 0; number < taken; ++number) EXPECT_EQ(stopped.reply(), std::to_string(number));
  const int first = put;
  put_some();  // it goes on with these
  for (const int number : from(first)) EXPECT_EQ(stopped.reply(), std::to_string(number));
  stopped.kill_and_wait();
  EXPECT_TRUE(GetParam().redeliver || all_memory_comes_back());
}

TEST_P(Getting, a_stopped_getter_takes_nothing_after_the_end) {
  put_some();
  Peer stopped(domain, order("stop"));
  tell_to_get(stopped);
  const int taken = taken_until_it_stopped(stopped);
  queue.shutdown(true);
  stopped.signal(SIGCONT);
  for (int number = 0; number < taken; ++number) EXPECT_EQ(stopped.reply(), std::to_string(number));
  EXPECT_EQ(stopped.reply(), "not got");
}

INSTANTIATE_TEST_SUITE_P(At, Getting,
                         ::testing::Values(GetPlace{"get_ring.read", 1, false},
                                           GetPlace{"get_ring.read", 40, false},
                                           GetPlace{"get_ring.acquired", 1, true},
                                           GetPlace{"get_ring.acquired", 200, true},
                                           GetPlace{"get_ring.read", 2, false, true},
                                           GetPlace{"get_ring.acquired", 2, true, true},
                                           GetPlace{"get_ring.read", 1, false, false, true},
                                           GetPlace{"get_ring.read", 40, false, true, true},
                                           GetPlace{"get_ring.acquired", 1, true, true, true},
                                           GetPlace{"get_ring.acquired", 200, true, false, true}));

}  // namespace
}  // namespace tensorbus
