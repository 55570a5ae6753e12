#include "tensorbus/bus/event_loop/event_loop.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <future>

#include "tensorbus/platform/log.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus::bus {
namespace {

using namespace tensorbus::testing;

class ServiceThread : public ::testing::Test {
 protected:
  // Runs what was posted before.
  void settle() {
    std::promise<void> reached;
    loop.post([&] { reached.set_value(); });
    reached.get_future().wait();
  }

  EventLoop loop;
};

TEST_F(ServiceThread, runs_tasks_in_their_order_on_one_thread) {
  std::vector<int> order;
  std::set<std::thread::id> threads;
  for (int i = 0; i < 100; ++i)
    loop.post([&, i] {
      order.push_back(i);
      threads.insert(std::this_thread::get_id());
    });
  loop.start();
  settle();
  EXPECT_EQ(order.size(), 100U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(threads.size(), 1U);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

TEST_F(ServiceThread, a_task_can_post_another) {
  loop.start();
  std::promise<void> reached;
  loop.post([&] { loop.post([&] { reached.set_value(); }); });
  reached.get_future().wait();
}

TEST_F(ServiceThread, runs_timers_in_the_order_of_their_times) {
  std::vector<int> order;
  std::promise<void> reached;
  loop.post_later(-1h, [&] {
    order.push_back(3);
    reached.set_value();
  });
  loop.post_later(-3h, [&] { order.push_back(1); });
  loop.post_later(-2h, [&] { order.push_back(2); });
  loop.start();  // late: all of them are due
  reached.get_future().wait();
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
}

TEST_F(ServiceThread, a_timer_does_not_run_early) {
  loop.start();
  const auto start = std::chrono::steady_clock::now();
  std::promise<std::chrono::steady_clock::time_point> reached;
  loop.post_later(20ms, [&] { reached.set_value(std::chrono::steady_clock::now()); });
  EXPECT_GE(reached.get_future().get() - start, 20ms);
}

TEST_F(ServiceThread, tells_of_a_descriptor_for_as_long_as_it_is_watched) {
  loop.start();
  const platform::Fd event = platform::make_event();
  std::atomic<int> calls{0};
  std::promise<void> reached;
  const EventLoop::Tag tag = loop.watch(event.get(), [&] {
    platform::clear_event(event.get());
    if (++calls == 1) reached.set_value();
  });
  platform::signal_event(event.get());
  reached.get_future().wait();
  loop.unwatch(tag, event.get());
  settle();
  platform::signal_event(event.get());
  settle();
  EXPECT_EQ(calls, 1);
  loop.unwatch(tag, event.get());  // once more does no harm
}

TEST_F(ServiceThread, a_handler_can_unwatch_itself_and_others) {
  loop.start();
  const platform::Fd one = platform::make_event();
  const platform::Fd two = platform::make_event();
  std::atomic<int> calls{0};
  EventLoop::Tag tags[2];
  std::promise<void> watched;
  const auto ready = watched.get_future().share();
  const auto handler = [&] {
    ready.wait();
    ++calls;
    loop.unwatch(tags[0], one.get());
    loop.unwatch(tags[1], two.get());
  };
  tags[0] = loop.watch(one.get(), handler);
  tags[1] = loop.watch(two.get(), handler);
  platform::signal_event(one.get());
  platform::signal_event(two.get());
  watched.set_value();
  EXPECT_TRUE(eventually([&] { return calls > 0; }));
  settle();
  EXPECT_EQ(calls, 1);
}

TEST_F(ServiceThread, tells_of_room_to_write_only_when_asked) {
  loop.start();
  const platform::Fd event = platform::make_event();  // always writable
  std::atomic<int> calls{0};
  const EventLoop::Tag tag = loop.watch(event.get(), [&] { ++calls; });
  settle();
  EXPECT_EQ(calls, 0);
  loop.watch_writable(tag, event.get(), true);
  EXPECT_TRUE(eventually([&] { return calls > 0; }));
  loop.watch_writable(tag, event.get(), false);
  settle();
  const int before = calls;
  settle();
  EXPECT_EQ(calls, before);
}

TEST_F(ServiceThread, tasks_after_its_end_are_dropped) {
  loop.start();
  loop.stop();
  loop.post([] { FAIL(); });
  loop.stop();
}

TEST_F(ServiceThread, logs_what_a_task_throws_and_goes_on) {
  std::vector<std::pair<std::int32_t, std::string>> lines;
  platform::set_log(
      [](void* kept, std::int32_t level, const char* text) {
        static_cast<decltype(lines)*>(kept)->emplace_back(level, text);
      },
      &lines);
  loop.start();
  loop.post([] { throw Error(Code::kProtocol, "nonsense"); });
  loop.post([tries = 0]() mutable {
    if (++tries < 3) throw Error(Code::kOutOfMemory, "no room");
  });
  std::promise<void> reached;  // later than what is tried again after 20 ms
  loop.post_later(100ms, [&] { reached.set_value(); });
  reached.get_future().wait();
  platform::set_log(nullptr, nullptr);
  ASSERT_EQ(lines.size(), 2U);  // a shortage is told once in a while
  EXPECT_EQ(lines[0], std::pair(2, std::string("nonsense")));
  EXPECT_EQ(lines[1], std::pair(1, std::string("no room (trying again until there is room)")));
}

TEST_F(ServiceThread, takes_no_signals) {
  loop.start();
  sigset_t blocked;
  std::promise<void> reached;
  loop.post([&] {
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    reached.set_value();
  });
  reached.get_future().wait();
  EXPECT_TRUE(sigismember(&blocked, SIGINT));
  EXPECT_TRUE(sigismember(&blocked, SIGUSR1));
  sigset_t own;
  pthread_sigmask(SIG_BLOCK, nullptr, &own);
  EXPECT_FALSE(sigismember(&own, SIGUSR1)) << "the caller's mask is as it was";
}

}  // namespace
}  // namespace tensorbus::bus
