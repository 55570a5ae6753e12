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

constexpr int kItemsToGet = 300;  // more than the ring has slots

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
  void put_all() {
    for (std::uint64_t number = 0; number < kItemsToGet; ++number)
      ASSERT_EQ(put_number(queue, number, GetParam().with_tensors, 0s), Outcome::kDone);
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
  static std::vector<int> from(int first) {
    std::vector<int> all;
    for (int number = first; number < kItemsToGet; ++number) all.push_back(number);
    return all;
  }
  void tell_to_get(Peer& getter, int count = kItemsToGet) const {
    getter.tell("get " + queue.address() + " count=" + std::to_string(count));
  }
  // How many items it has said that it has.
  static int said(Peer& getter) {
    int count = 0;
    while (getter.reply() == std::to_string(count)) ++count;
    return count;
  }

  bool all_memory_comes_back() const {
    return eventually([&] { return server->memory_use().used_bytes == 0; });
  }

  const FreshDomain domain;
  const bus::ParticipantRef server = domain.join();
  bus::Queue queue{{.redeliver = GetParam().redeliver}, server};
};

TEST_P(Getting, a_dead_getter_has_what_it_had_taken) {
  put_all();
  Peer getter(domain, order("kill"));
  tell_to_get(getter);
  const int had = said(getter) + (GetParam().has_it ? 1 : 0);
  ASSERT_TRUE(eventually([&] { return getter.has_ended(); }));
  const int left = GetParam().redeliver ? kItemsToGet : kItemsToGet - had;
  EXPECT_TRUE(eventually([&] {
    return queue.stats().lost == (GetParam().redeliver ? 0U : 1U) &&  // finished with the others
           queue.stats().items == static_cast<unsigned>(left);
  }));
  EXPECT_EQ(get_rest(), from(kItemsToGet - left));
  EXPECT_TRUE(GetParam().redeliver || all_memory_comes_back());
}

TEST_P(Getting, others_go_on_beside_a_stopped_getter) {
  put_all();
  Peer stopped(domain, order("stop"));
  tell_to_get(stopped);
  ASSERT_TRUE(stopped.wait_until_stopped());
  const auto taken = static_cast<int>(kItemsToGet - queue.stats().items);
  Peer other(domain);
  tell_to_get(other, kItemsToGet - taken);
  for (int number = taken; number < kItemsToGet; ++number)
    EXPECT_EQ(other.reply(), std::to_string(number));
  EXPECT_EQ(other.reply(), "ok");
  stopped.signal(SIGCONT);
  for (int number = 0; number < taken; ++number) EXPECT_EQ(stopped.reply(), std::to_string(number));
  put_all();  // it goes on with these
  for (int number = 0; number < kItemsToGet - taken; ++number)
    EXPECT_EQ(stopped.reply(), std::to_string(number));
  EXPECT_EQ(stopped.reply(), "ok");
  EXPECT_EQ(get_rest(), from(kItemsToGet - taken));
  EXPECT_TRUE(GetParam().redeliver || all_memory_comes_back());
}

TEST_P(Getting, a_stopped_getter_takes_nothing_after_the_end) {
  put_all();
  Peer stopped(domain, order("stop"));
  tell_to_get(stopped);
  ASSERT_TRUE(stopped.wait_until_stopped());
  const auto taken = static_cast<int>(kItemsToGet - queue.stats().items);
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
