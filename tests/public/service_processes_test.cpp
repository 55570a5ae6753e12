// Services and clients in several processes, of which some are stopped or killed.

#include <filesystem>
#include <future>

#include "services.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class ServiceElsewhere : public ::testing::Test {
 protected:
  // Until the other process says something.
  void hear() {
    Sample sample;
    ASSERT_EQ(told.get(sample, kLong), Outcome::kDone);
  }

  const FreshDomain domain;
  const Participant participant = domain.join();
  Queue told{{}, participant};
  Client client{"service", {.timeout = kLong}, participant};
};

void tell(const std::string& address, const Participant& participant) {
  Queue::open(address, kLong, {}, participant).put(Note(Value()).message());
}

// Answers with what it got, and, if that has tensors, with one of its own, which it writes to when
// it is asked to. To "wait" it never answers.
int serve(const std::vector<std::string>& arguments) {
  const Participant participant({.domain = arguments.at(0)});
  const Loan own = floats(participant, 3);
  Executor executor;
  executor.serve(Service(
      "service",
      [&](Content request) {
        if (request.fields == Value("wait")) {
          tell(arguments.at(1), participant);
          std::this_thread::sleep_for(kLong);  // killed long before
        }
        if (request.fields == Value("write")) own.as<float>()[0] = 42;
        if (request.tensors.empty()) return request;
        return Content(Value::Map{{"x", TensorIndex{0}}, {"own", TensorIndex{1}}},
                       {request.tensors[0], own.view()});
      },
      participant));
  executor.run();
  return 0;
}
const bool kServes = add_role("serve", serve);

TEST_F(ServiceElsewhere, gets_and_gives_tensors_by_reference) {
  const Process server("serve", {domain.path(), told.address()});
  const Loan mine = floats(participant, 1);
  const Content reply = client.call({mine.view()});
  EXPECT_TRUE(is_filled(reply.tensor("x").as<float>(), 1));
  EXPECT_TRUE(is_filled(reply.tensor("own").as<float>(), 3));
  mine.as<float>()[0] = 41;
  EXPECT_EQ(reply.tensor("x").as<float>()[0], 41);
  (void)client.call({"write"});
  EXPECT_EQ(reply.tensor("own").as<float>()[0], 42);
}

TEST_F(ServiceElsewhere, that_is_killed_ends_a_call_and_its_successor_serves_the_next) {
  for (int i = 0; i < 2; ++i) {
    Process server("serve", {domain.path(), told.address()});
    EXPECT_EQ(client.call({i}).fields, Value(i));
    auto call = std::async(std::launch::async,
                           [&] { return code_of([&] { (void)client.call({"wait"}); }); });
    hear();
    server.kill();
    EXPECT_EQ(call.get(), Code::kClosed);
  }
}

TEST_F(ServiceElsewhere, that_is_stopped_is_a_timeout_and_answers_when_it_goes_on) {
  const Process server("serve", {domain.path(), told.address()});
  EXPECT_EQ(client.call({1}).fields, Value(1));
  server.signal(SIGSTOP);
  EXPECT_EQ(code_of([&] { (void)client.call({2}, 20ms); }), Code::kTimeout);
  server.signal(SIGCONT);
  EXPECT_EQ(client.call({3}).fields, Value(3));
}

TEST_F(ServiceElsewhere, takes_over_for_another_of_its_name) {
  Process one("serve", {domain.path(), told.address()});
  EXPECT_EQ(client.call({1}).fields, Value(1));
  const Process other("serve", {domain.path(), told.address()});
  one.kill();
  EXPECT_TRUE(eventually([&] {
    // It may have died between two looks.
    return code_of([&] { (void)client.call({2}); }) == std::nullopt;
  }));
}

// The client cannot have seen that the first has closed, but for a request that it does not accept.
TEST_F(ServiceElsewhere, that_was_closed_a_moment_ago_leaves_the_call_to_another_of_its_name) {
  const auto serving = [this](const char* name) {
    const auto answer = [name](const Content&) { return Content{name}; };
    return std::make_unique<Serving>(Service("service", answer, domain.join()));
  };
  for (int i = 0; i < 20; ++i) {
    Client asking("service", {.timeout = kLong}, participant);
    auto first = serving("first");
    EXPECT_EQ(asking.call({}).fields, Value("first"));
    const auto second = serving("second");
    first.reset();
    EXPECT_EQ(asking.call({}).fields, Value("second"));
  }
}

// Asks "service", and says so when it has its answer.
int ask(const std::vector<std::string>& arguments) {
  const Participant participant({.domain = arguments.at(0)});
  Client client("service", {.timeout = kLong}, participant);
  REQUIRE_IN_ROLE(client.call({"from elsewhere"}).fields == Value("from elsewhere"));
  return 0;
}
const bool kAsks = add_role("ask", ask);

// A client in another process, to which something happens while it waits for its answer.
class ClientElsewhere : public ServiceElsewhere {
 protected:
  void serve_it_and_another(std::function<void(Process&)> happens) {
    Service service(
        "service",
        [&](Content request) {
          if (request.fields == Value("from elsewhere")) happens(*other);
          return request;
        },
        participant);
    other.emplace("ask", std::vector{domain.path()});
    ASSERT_TRUE(serve_one(service));
    auto reply = std::async(std::launch::async, [&] { return client.call({7}).fields; });
    ASSERT_TRUE(serve_one(service));
    EXPECT_EQ(reply.get(), Value(7));
    other->signal(SIGCONT);
  }

  std::optional<Process> other;
};

TEST_F(ClientElsewhere, that_is_stopped_holds_up_nobody_and_gets_its_answer) {
  serve_it_and_another([](Process& asking) { asking.signal(SIGSTOP); });
  EXPECT_EQ(other->wait(), 0);
}

TEST_F(ClientElsewhere, that_dies_costs_the_others_nothing) {
  serve_it_and_another([](Process& asking) { asking.kill(); });
}

// Says its queue's address, then nothing.
int hold_a_queue(const std::vector<std::string>& arguments) {
  const Participant participant({.domain = arguments.at(0)});
  const Queue answers({}, participant);
  Queue::open(arguments.at(1), kLong, {}, participant).put(Note(answers.address()).message());
  std::this_thread::sleep_for(kLong);  // killed long before
  return 1;
}
const bool kHoldsAQueue = add_role("hold_a_queue", hold_a_queue);

TEST_F(ClientElsewhere, that_never_takes_its_answers_costs_a_bounded_number_of_descriptors) {
  const auto descriptors = [] {
    namespace fs = std::filesystem;
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  other.emplace("hold_a_queue", std::vector{domain.path(), told.address()});
  Sample sample;
  ASSERT_EQ(told.get(sample, kLong), Outcome::kDone);
  other->signal(SIGSTOP);
  Service service("service", echo, participant);
  Queue requests = Queue::open("service:service", kLong, {}, participant);
  const Note request(
      Value::Map{{"reply", sample.fields()}, {"types", Value::List{"", ""}}, {"data", 1}});
  const auto before = descriptors();
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(requests.put(request.message()), Outcome::kDone);
    ASSERT_TRUE(serve_one(service));
  }
  EXPECT_LT(descriptors() - before, 2 * 128 + 20);
  EXPECT_EQ(service.stats().dropped, 0U);
}

}  // namespace
}  // namespace tensorbus
