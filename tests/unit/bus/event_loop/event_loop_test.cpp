#include "tensorbus/bus/event_loop/event_loop.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <future>

#include "tensorbus/bus/event_loop/completion.hpp"
#include "tensorbus/platform/log.hpp"
#include "tests/unit/bus/test_support.hpp"
#include "tests/unit/platform/test_support.hpp"

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

// Waits for a result as a thread of a program does, and returns who ran the handlers meanwhile.
class Driving : public ServiceThread {
 protected:
  ~Driving() override { loop.stop(); }  // its handlers use what goes now

  // Sets the result when the descriptor is readable, on the event loop.
  EventLoop::Tag set_when_ready() {
    return loop.watch(event.get(), [&] {
      platform::clear_event(event.get());
      handled_by = std::this_thread::get_id();
      result->set(1);
    });
  }
  void renew() { result = std::make_shared<Completion<int>>(); }

  const platform::Fd event = platform::make_event();
  std::shared_ptr<Completion<int>> result = std::make_shared<Completion<int>>();
  std::atomic<std::thread::id> handled_by{};
};

TEST_F(Driving, a_thread_that_waits_runs_the_handler_itself) {
  loop.start();
  set_when_ready();
  for (int i = 0; i < 3; ++i) {
    renew();
    EventLoop::Driver driver(loop);
    platform::signal_event(event.get());
    EXPECT_EQ(result->wait(10s, driver), Outcome::kDone);
    EXPECT_EQ(handled_by, std::this_thread::get_id());
  }
}

TEST_F(Driving, the_loop_goes_on_when_the_thread_has_left) {
  loop.start();
  set_when_ready();
  {
    EventLoop::Driver driver(loop);
    EXPECT_EQ(result->wait(1ms, driver), Outcome::kTimedOut);
  }
  platform::signal_event(event.get());
  EXPECT_EQ(result->wait(10s), Outcome::kDone);
  EXPECT_NE(handled_by, std::this_thread::get_id());
}

TEST_F(Driving, what_came_while_nobody_waited_is_handled_when_the_thread_leaves) {
  loop.start();
  set_when_ready();
  {
    const EventLoop::Driver driver(loop);
    platform::signal_event(event.get());
  }
  EXPECT_EQ(result->wait(10s), Outcome::kDone);
}

TEST_F(Driving, a_result_from_another_thread_wakes_it) {
  loop.start();
  for (int i = 0; i < 100; ++i) {
    renew();
    EventLoop::Driver driver(loop);
    loop.post([result = result] { result->set(1); });
    EXPECT_EQ(result->wait(10s, driver), Outcome::kDone);
  }
}

TEST_F(Driving, a_result_from_another_thread_wakes_it_though_that_handles_messages_at_once) {
  loop.start();
  for (int i = 0; i < 100; ++i) {
    std::atomic<bool> done{false};
    std::promise<pid_t> waits;
    std::thread waiting([&] {
      EventLoop::Driver driver(loop);
      waits.set_value(::gettid());
      // Who is not woken waits until CTest kills the test.
      (void)driver.wait_until([&] { return done.load(); }, 1h);
    });
    ASSERT_TRUE(test::wait_until_asleep(::getpid(), waits.get_future().get()));
    done = true;
    EventLoop::Driver::kick(loop);
    loop.run_or_post([] {}, true);
    waiting.join();
  }
}

TEST_F(Driving, tasks_and_timers_run_meanwhile) {
  loop.start();
  std::atomic<bool> posted{false};
  EventLoop::Driver driver(loop);
  loop.post([&] { posted = true; });
  loop.post_later(2ms, [result = result] { result->set(1); });
  EXPECT_EQ(result->wait(10s, driver), Outcome::kDone);
  EXPECT_TRUE(posted);
}

TEST_F(Driving, one_thread_at_a_time_does_so) {
  loop.start();
  EventLoop::Driver driver(loop);
  std::thread([&] {
    EventLoop::Driver other(loop);
    EXPECT_FALSE(other.take());
    loop.post([result = result] { result->set(1); });
    EXPECT_EQ(result->wait(10s, other), Outcome::kDone);
  }).join();
  EXPECT_TRUE(driver.take());
}

TEST_F(Driving, the_thread_does_not_have_the_place_while_it_is_asked_whether_it_gives_up) {
  loop.start();
  set_when_ready();
  EventLoop::Driver driver(loop);
  const platform::StopCondition stop(10s, [&] {
    platform::signal_event(event.get());  // only the loop's own thread can handle it
    return !eventually([&] { return result->done(); });
  });
  EXPECT_EQ(result->wait(stop, driver), Outcome::kDone);
  EXPECT_NE(handled_by, std::this_thread::get_id());
}

TEST_F(Driving, a_handler_that_meets_a_limit_is_called_again) {
  loop.start();
  platform::set_log([](void*, std::int32_t, const char*) {}, nullptr);
  std::atomic<int> calls{0};
  loop.watch(event.get(), [&] {
    platform::clear_event(event.get());
    if (++calls == 1) throw std::bad_alloc();
    result->set(1);
  });
  EventLoop::Driver driver(loop);
  platform::signal_event(event.get());
  EXPECT_EQ(result->wait(10s, driver), Outcome::kDone);
  platform::set_log(nullptr, nullptr);
  EXPECT_EQ(calls, 2);
}

TEST_F(ServiceThread, a_task_can_run_in_the_thread_that_asks_for_it) {
  loop.start();
  settle();
  std::thread::id ran_in;
  EXPECT_TRUE(eventually([&] {  // the loop's own thread may be just going to sleep
    std::promise<std::thread::id> ran;
    loop.run_or_post([&] { ran.set_value(std::this_thread::get_id()); });
    return ran.get_future().get() == std::this_thread::get_id();
  }));
}

TEST_F(ServiceThread, tasks_of_one_thread_keep_their_order_wherever_they_run) {
  loop.start();
  std::vector<int> order;
  for (int i = 0; i < 1'000; ++i) {
    const auto add = [&, i] { order.push_back(i); };
    if (i % 3 == 0)
      loop.post(add);
    else
      loop.run_or_post(add);
  }
  settle();
  ASSERT_EQ(order.size(), 1'000U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(ServiceThread, a_task_that_asks_for_another_is_done_first) {
  std::vector<int> order;
  loop.run_or_post([&] {
    loop.run_or_post([&] { order.push_back(2); });
    order.push_back(1);
  });
  EXPECT_EQ(order, (std::vector{1}));
  loop.turn(0ms);
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST_F(ServiceThread, work_in_a_turn_waits_for_the_end_of_a_handler) {
  loop.start();
  std::promise<void> begun, may_end;
  std::atomic<bool> ended = false;
  loop.post([&] {
    begun.set_value();
    may_end.get_future().wait();
    ended = true;
  });
  begun.get_future().wait();
  const auto nothing = [] {};
  EXPECT_FALSE(loop.run_now(nothing));
  std::promise<pid_t> id;
  std::thread other([&] {
    id.set_value(::gettid());
    bool was_over = false;
    EXPECT_TRUE(loop.run_in_turn([&] { was_over = ended; }));
    EXPECT_TRUE(was_over);
  });
  EXPECT_TRUE(test::wait_until_asleep(::getpid(), id.get_future().get()));
  may_end.set_value();
  other.join();
}

TEST_F(ServiceThread, a_handler_and_a_stopped_loop_give_no_turn) {
  const auto nothing = [] {};
  EXPECT_TRUE(loop.run_in_turn([&] { EXPECT_FALSE(loop.run_in_turn(nothing)); }));
  loop.start();
  loop.stop();
  EXPECT_FALSE(loop.run_in_turn(nothing));
}

}  // namespace
}  // namespace tensorbus::bus
