// QueueTable::drain(): requests that wait for the end of a queue get one reply each.

#include <gtest/gtest.h>

#include <map>
#include <new>
#include <string>
#include <vector>

#include "tensorbus/bus/queue/queue_table.hpp"

namespace tensorbus::bus {
namespace {

using EnderTable = QueueTable<int, int>;
using EnderRequest = ClientRequest<int>;

// Records the replies, by client.
struct EnderPort {
  std::map<int, std::vector<std::string>> replies;
  bool short_of_memory = false;

  void add(const EnderRequest& to, std::string reply) {
    if (short_of_memory) throw std::bad_alloc();
    replies[to.client].push_back(std::move(reply));
  }
  void offer(const EnderRequest& to, int item, std::uint64_t) {
    add(to, "item " + std::to_string(item));
  }
  void done(const EnderRequest& to) { add(to, "done"); }
  void timed_out(const EnderRequest& to) { add(to, "timed out"); }
  void shut_down(const EnderRequest& to) { add(to, "shut down"); }
  void deny(const EnderRequest& to, const Error& why) { add(to, why.what()); }
  static EnderTable::Clock::time_point now() { return {}; }
};

class Enders : public ::testing::TestWithParam<bool> {
 protected:
  using Replies = std::vector<std::string>;
  static constexpr int kGetter = 1;
  static constexpr int kEnder = 2;
  static constexpr int kDrainer = 3;

  bool redelivers() const { return GetParam(); }
  void put(int item) { ASSERT_TRUE(table.put_now(port, item, 0)); }
  void get() { table.get(port, {kGetter, ++request}, true); }
  std::uint64_t take() { return table.take(port, {kGetter, request}); }
  void begin() { table.drain(port, {kEnder, 1}, true); }
  Replies told() { return port.replies[kEnder]; }

  EnderPort port;
  EnderTable table{0, GetParam()};
  std::uint32_t request = 0;
};

INSTANTIATE_TEST_SUITE_P(WithRedeliver, Enders, ::testing::Bool());

TEST_P(Enders, wait_for_the_shutdown_of_an_empty_queue) {
  begin();
  EXPECT_EQ(told(), Replies());
  EXPECT_FALSE(table.waits_for_takes()) << "a take would not end its wait";
  table.shut_down(port, false);
  EXPECT_EQ(told(), Replies{"done"});
  table.settle(port);
  table.close(port, Error(Code::kClosed, "closed"));
  EXPECT_EQ(told(), Replies{"done"}) << "one reply";
}

TEST_P(Enders, of_a_queue_that_is_shut_down_do_not_wait) {
  table.shut_down(port, false);
  begin();
  EXPECT_EQ(told(), Replies{"done"});
}

TEST_P(Enders, wait_longer_than_drainers) {
  begin();
  table.drain(port, {kDrainer, 1});
  EXPECT_EQ(port.replies[kDrainer], Replies{"done"});
  EXPECT_EQ(told(), Replies());
  put(7);
  table.drain(port, {kDrainer, 2});
  EXPECT_TRUE(table.waits_for_takes());
  get();
  (void)take();
  table.shut_down(port, false);
  EXPECT_EQ(port.replies[kDrainer].size(), redelivers() ? 1U : 2U);
  table.forget(port, kGetter);  // with `redeliver` the item comes back
  EXPECT_EQ(port.replies[kDrainer].size(), redelivers() ? 1U : 2U);
  EXPECT_EQ(told().size(), redelivers() ? 0U : 1U);
}

TEST_P(Enders, wait_for_waiting_offered_and_taken_items) {
  put(7);
  begin();
  table.shut_down(port, false);
  EXPECT_EQ(told(), Replies()) << "it waits";
  EXPECT_TRUE(table.waits_for_takes());
  get();
  EXPECT_EQ(port.replies[kGetter], Replies{"item 7"});
  EXPECT_EQ(told(), Replies()) << "it is offered";
  table.cancel(port, {kGetter, request});
  EXPECT_EQ(told(), Replies()) << "it waits again";
  get();
  const std::uint64_t number = take();
  EXPECT_EQ(told(), redelivers() ? Replies() : Replies{"done"}) << "it may come back";
  EXPECT_EQ(table.waits_for_takes(), redelivers());
  table.task_done(port, kGetter, number);
  EXPECT_EQ(told(), Replies{"done"});
  EXPECT_FALSE(table.waits_for_takes());
}

TEST_P(Enders, wait_for_no_items_that_are_dropped) {
  put(7);
  put(8);
  get();
  (void)take();
  begin();
  table.shut_down(port, true);
  EXPECT_EQ(told(), Replies{"done"}) << "an item that comes back is dropped";
}

TEST_P(Enders, of_a_queue_that_is_closed_are_denied) {
  put(7);
  begin();
  table.close(port, Error(Code::kClosed, "closed"));
  EXPECT_EQ(told(), Replies{"closed"});
  table.shut_down(port, false);
  EXPECT_EQ(told(), Replies{"closed"}) << "one reply";
}

TEST_P(Enders, that_give_up_are_told_that_they_timed_out) {
  begin();
  table.cancel(port, {kEnder, 2});
  EXPECT_EQ(told(), Replies()) << "another request";
  table.cancel(port, {kEnder, 1});
  EXPECT_EQ(told(), Replies{"timed out"});
  table.cancel(port, {kEnder, 1});
  table.shut_down(port, false);
  EXPECT_EQ(told(), Replies{"timed out"}) << "one reply";
}

TEST_P(Enders, that_give_up_after_their_reply_get_no_other) {
  begin();
  table.shut_down(port, false);
  table.cancel(port, {kEnder, 1});
  EXPECT_EQ(told(), Replies{"done"});
}

TEST_P(Enders, that_have_died_get_no_reply) {
  begin();
  table.drain(port, {kDrainer, 1}, true);
  table.forget(port, kEnder);
  table.shut_down(port, false);
  EXPECT_EQ(told(), Replies());
  EXPECT_EQ(port.replies[kDrainer], Replies{"done"}) << "the other one lives";
}

TEST_P(Enders, that_wait_at_the_death_of_the_last_getter_get_their_reply) {
  put(7);
  get();
  (void)take();
  begin();
  table.shut_down(port, true);
  table.forget(port, kGetter);
  EXPECT_EQ(told(), Replies{"done"});
  EXPECT_FALSE(table.any_waits());
}

TEST_P(Enders, wait_again_if_there_is_no_memory_for_the_reply) {
  begin();
  port.short_of_memory = true;
  table.shut_down(port, false);
  EXPECT_EQ(told(), Replies());
  port.short_of_memory = false;
  table.settle(port);
  EXPECT_EQ(told(), Replies{"done"});
}

TEST_P(Enders, are_as_many_as_other_waiting_calls) {
  constexpr std::uint32_t kMost = 65'536;
  for (std::uint32_t number = 0; number < kMost; ++number)
    table.drain(port, {kEnder, number}, true);
  EXPECT_THROW(table.drain(port, {kEnder, kMost}, true), Error);
  table.drain(port, {kDrainer, 1});
  EXPECT_EQ(port.replies[kDrainer], Replies{"done"}) << "another list";
  table.shut_down(port, false);
  EXPECT_EQ(told().size(), kMost);
}

}  // namespace
}  // namespace tensorbus::bus
