// Coroutines that wait for replies of services.

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "services.hpp"

#if defined(__cpp_impl_coroutine)
struct AwaitedSum {
  std::vector<std::int64_t> numbers;
};
TENSORBUS_MESSAGE(AwaitedSum, "test.AwaitedSum", numbers)

struct AwaitedTotal {
  std::int64_t total = 0;
};
TENSORBUS_MESSAGE(AwaitedTotal, "test.AwaitedTotal", total)

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

std::size_t count_entries(const char* folder) {
  namespace fs = std::filesystem;
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}
std::size_t descriptors() { return count_entries("/proc/self/fd"); }
std::size_t threads() { return count_entries("/proc/self/task"); }

// The end of a call: its reply, or the code or the text of its error.
struct Ended {
  std::optional<Value> reply{};
  std::optional<Code> code{};
  std::string text{};
};

Task call(Executor& executor, const Client& client, Content request, Client::Timeout timeout,
          std::vector<Ended>& ended) {
  try {
    const Content reply = co_await executor.call(client, request, timeout);
    ended.push_back({.reply = reply.fields});
  } catch (const ServiceError& error) {
    ended.push_back({.text = error.what()});
  } catch (const Error& error) {
    ended.push_back({.code = error.code(), .text = error.what()});
  }
}

class AwaitedCalls : public ::testing::Test {
 protected:
  Executor::Token start(Content request, Client::Timeout timeout = {}) {
    return executor.spawn(call(executor, client, std::move(request), timeout, ended));
  }
  void run_until(const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + kLong;
    while (!holds()) {
      (void)executor.poll_once(kLong);
      if (std::chrono::steady_clock::now() > end) FAIL() << "nothing has come";
    }
  }
  void run_until_ended(std::size_t count) {
    run_until([&] { return ended.size() >= count; });
  }

  const FreshDomain domain;
  const Participant participant = domain.join();
  Client client{"service", {.timeout = kLong}, participant};
  Executor executor;
  std::vector<Ended> ended;
};

TEST_F(AwaitedCalls, return_the_reply) {
  const Serving serving(Service("service", echo, domain.join()));
  const Loan mine = floats(participant, 1);
  const auto ask = [](Executor& in, const Client& of, Content request, bool& done) -> Task {
    const Content reply = co_await in.call(of, request);
    EXPECT_TRUE(is_filled(reply.tensor().as<float>(), 1));
    done = true;
  };
  for (int i = 0; i < 3; ++i) {  // with a service that is looked for, and with a known one
    bool done = false;
    executor.spawn(ask(executor, client, {mine.view()}, done));
    run_until([&] { return done; });
    start({i});
    run_until_ended(1);
    EXPECT_EQ(ended.at(0).reply, Value(i));
    ended.clear();
  }
}

TEST_F(AwaitedCalls, with_structs_return_a_struct) {
  const Serving serving(Service::of<AwaitedSum, AwaitedTotal>(
      "service",
      [](const AwaitedSum& sum) {
        AwaitedTotal total;
        for (const std::int64_t number : sum.numbers) total.total += number;
        return total;
      },
      domain.join()));
  const auto ask = [](Executor& in, const Client& of, std::int64_t& total) -> Task {
    const AwaitedSum sum{.numbers = {1, 2, 3}};  // GCC 12 takes no such list in the wait itself
    const auto reply = co_await in.call<AwaitedTotal>(of, sum);
    total = reply.total;
  };
  std::int64_t total = 0;
  executor.spawn(ask(executor, client, total));
  run_until([&] { return total != 0; });
  EXPECT_EQ(total, 6);
  const auto ask_wrongly = [](Executor& in, const Client& of, std::optional<Code>& code) -> Task {
    try {
      (void)co_await in.call<AwaitedSum>(of, AwaitedTotal{.total = 1});
    } catch (const Error& error) {
      code = error.code();
    }
  };
  std::optional<Code> code;
  executor.spawn(ask_wrongly(executor, client, code));
  run_until([&] { return code.has_value(); });
  EXPECT_EQ(code, Code::kTypeMismatch);
}

TEST_F(AwaitedCalls, throw_the_error_of_the_service_as_a_blocking_call_does) {
  const Serving serving(Service(
      "service", [](const Content&) -> Content { throw std::out_of_range("the third"); },
      domain.join()));
  std::string blocking;
  try {
    (void)client.call({1});
  } catch (const ServiceError& error) {
    blocking = error.what();
  }
  start({1});
  run_until_ended(1);
  EXPECT_EQ(ended.at(0).code, std::nullopt);
  EXPECT_EQ(ended.at(0).text, blocking);
  EXPECT_NE(blocking.find("the third"), std::string::npos);
}

TEST_F(AwaitedCalls, wait_side_by_side_and_with_other_sources_of_the_executor) {
  Service service("service", echo, participant);
  for (int i = 0; i < 20; ++i) start({i});
  (void)executor.serve(std::move(service));  // in the thread that awaits
  run_until_ended(20);
  std::vector<bool> replied(20);
  for (const Ended& one : ended) {
    ASSERT_TRUE(one.reply) << one.text;
    replied.at(static_cast<std::size_t>(one.reply->as<std::int64_t>())) = true;
  }
  EXPECT_EQ(std::count(replied.begin(), replied.end(), true), 20);
}

TEST_F(AwaitedCalls, wait_for_a_service_that_comes_later) {
  const std::size_t before = threads();
  for (int i = 0; i < 5; ++i) start({i});
  EXPECT_EQ(executor.poll_once(10ms), 0U);
  EXPECT_LE(threads(), before + 1) << "one thread looks for all of them";
  const Serving serving(Service("service", echo, domain.join()));
  run_until_ended(5);
  for (const Ended& one : ended) EXPECT_TRUE(one.reply) << one.text;
}

TEST_F(AwaitedCalls, end_in_time_without_a_service) {
  start({1}, 1ms);
  start({2}, 0ms);
  start({3}, -1s);
  run_until_ended(3);
  for (const Ended& one : ended) {
    EXPECT_EQ(one.code, Code::kTimeout);
    EXPECT_NE(one.text.find("there was no service 'service' in time"), std::string::npos);
  }
}

TEST_F(AwaitedCalls, end_in_time_without_a_reply_and_the_late_one_is_discarded) {
  Service service("service", echo, domain.join());
  ASSERT_EQ(client.wait_for_service(kLong), Outcome::kDone);
  for (int i = 0; i < 50; ++i) {
    start({i}, 1ms);
    run_until_ended(ended.size() + 1);
    EXPECT_EQ(ended.back().code, Code::kTimeout);
  }
  start({"last"});
  const auto served = [&] {
    while (service.try_serve() == Outcome::kDone) {
    }
    return ended.back().reply == Value("last");
  };
  while (!served()) (void)executor.poll_once(1ms);
  EXPECT_EQ(ended.size(), 51U);
}

TEST_F(AwaitedCalls, that_are_destroyed_leave_nothing_behind) {
  {
    Service service("service", echo, domain.join());
    EXPECT_EQ(code_of([&] { (void)client.call({1}, 1ms); }), Code::kTimeout);  // it is known
    const std::size_t before = descriptors();
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(executor.remove(start({i})));
    EXPECT_TRUE(eventually([&] { return descriptors() <= before + 2; }))
        << descriptors() << " of " << before;
    while (service.try_serve() == Outcome::kDone) {
    }
  }
  const std::size_t before = descriptors();
  const std::size_t running = threads();
  {
    Client other("nobody serves this", {.timeout = kLong}, participant);
    for (int i = 0; i < 20; ++i)
      EXPECT_TRUE(executor.remove(executor.spawn(call(executor, other, {i}, {}, ended))));
    {
      Executor ends;
      for (int i = 0; i < 20; ++i) ends.spawn(call(ends, other, {i}, {}, ended));
    }
    EXPECT_TRUE(eventually([&] { return threads() == running; })) << "the search was given up";
  }
  EXPECT_EQ(threads(), running);
  EXPECT_LE(descriptors(), before);
  EXPECT_TRUE(ended.empty());
}

TEST_F(AwaitedCalls, go_on_when_their_client_is_destroyed) {
  const auto call_and_forget = [&] {
    Client brief("service", {.timeout = kLong}, participant);
    executor.spawn(call(executor, brief, {7}, {}, ended));
  };
  call_and_forget();
  Serving serving(Service("service", echo, domain.join()));
  run_until_ended(1);
  EXPECT_EQ(ended.at(0).reply, Value(7)) << ended.at(0).text;
  Client moved("service", {}, participant);
  const Client here(std::move(moved));
  executor.spawn(call(executor, moved, {8}, {}, ended));
  EXPECT_EQ(ended.at(1).code, Code::kClosed);
}

TEST_F(AwaitedCalls, stay_at_their_wait_when_the_executor_is_stopped) {
  start({1});
  executor.stop();
  executor.run();
  EXPECT_TRUE(ended.empty());
  const Serving serving(Service("service", echo, domain.join()));
  run_until_ended(1);
  EXPECT_EQ(ended.at(0).reply, Value(1));
}

TEST_F(AwaitedCalls, of_several_executors_share_a_client) {
  const Serving serving(Service("service", echo, domain.join()));
  const auto ask_all = [](Executor& in, const Client& of, int count) -> Task {
    for (int i = 0; i < count; ++i) {
      const Content reply = co_await in.call(of, {i});
      EXPECT_EQ(reply.fields, Value(i));
    }
    in.stop();
  };
  std::vector<std::jthread> all;
  for (int i = 0; i < 4; ++i)
    all.emplace_back([&] {
      Executor own;
      own.spawn(ask_all(own, client, 200));
      own.run();
    });
  for (int i = 0; i < 200; ++i) EXPECT_EQ(client.call({i}).fields, Value(i));
}

// Replies with what it got. To "wait" it never replies, and says so to a queue.
int serve_awaited(const std::vector<std::string>& arguments) {
  const Participant participant({.domain = arguments.at(0)});
  Queue told = Queue::open(arguments.at(1), kLong, {}, participant);
  Service service(
      "service",
      [&](Content request) {
        if (request.fields == Value("wait")) {
          told.put(Note(Value()).message());
          std::this_thread::sleep_for(kLong);  // killed long before
        }
        return request;
      },
      participant);
  while (service.serve(kLong) == Outcome::kDone) {
  }
  return 0;
}
const bool kServesAwaited = add_role("serve_awaited", serve_awaited);

class AwaitedCallsElsewhere : public AwaitedCalls {
 protected:
  Queue told{{}, participant};
};

TEST_F(AwaitedCallsElsewhere, end_when_the_process_of_the_service_is_killed) {
  for (int i = 0; i < 3; ++i) {
    Process serving("serve_awaited", {domain.path(), told.address()});
    start({i});
    run_until_ended(1);
    EXPECT_EQ(ended.at(0).reply, Value(i));
    start({"wait"});
    start({"behind it"});
    Sample sample;
    ASSERT_EQ(told.get(sample, kLong), Outcome::kDone);
    serving.kill();
    run_until_ended(3);
    EXPECT_EQ(ended.at(1).code, Code::kClosed) << ended.at(1).text;
    EXPECT_EQ(ended.at(2).code, Code::kClosed) << ended.at(2).text;
    ended.clear();
  }
}

TEST_F(AwaitedCallsElsewhere, that_is_stopped_end_in_time_and_do_not_hold_up_the_thread) {
  Process serving("serve_awaited", {domain.path(), told.address()});
  start({1});
  run_until_ended(1);
  serving.signal(SIGSTOP);
  Queue jobs({}, participant);
  const auto work = [](Executor& in, Queue& from, int& done) -> Task {
    while (const auto job = co_await in.next(from)) ++done;
  };
  int done = 0;
  executor.spawn(work(executor, jobs, done));
  const Loan tensor = floats(participant, 1);
  start({tensor.view()}, 200ms);
  start({2}, 200ms);
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(jobs.put(Note(Value(i)).message()), Outcome::kDone);
    run_until([&] { return done == i + 1; });
  }
  EXPECT_EQ(ended.size(), 1U) << "the calls still wait";
  run_until_ended(3);
  EXPECT_EQ(ended.at(1).code, Code::kTimeout);
  EXPECT_EQ(ended.at(2).code, Code::kTimeout);
  serving.signal(SIGCONT);
  start({3});
  run_until_ended(4);
  EXPECT_EQ(ended.at(3).reply, Value(3)) << ended.at(3).text;
}

}  // namespace
}  // namespace tensorbus
#endif
