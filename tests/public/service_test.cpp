// Services and their clients: what they say to each other.

#include <future>
#include <stdexcept>

#include "services.hpp"

struct Question {
  tensorbus::ArrayField numbers;
  std::optional<std::string> unit;
};
TENSORBUS_MESSAGE(Question, "test.Question", numbers, unit)

struct Sum {
  double sum = 0;
  tensorbus::ArrayField doubled;
};
TENSORBUS_MESSAGE(Sum, "test.Sum", sum, doubled)

// What a newer client asks, and what no service here understands.
struct NewerQuestion {
  tensorbus::ArrayField numbers;
  std::int64_t precision = 0;
};
TENSORBUS_MESSAGE(NewerQuestion, "test.Question", numbers, precision)
struct OtherQuestion {
  std::string numbers;
};
TENSORBUS_MESSAGE(OtherQuestion, "test.Question", numbers)

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class AService : public ::testing::Test {
 protected:
  Service service_of(Service::Callback callback) {
    return Service("service", std::move(callback), participant);
  }
  Service summing() {
    return Service::of<Question, Sum>(
        "service",
        [this](const Question& question) {
          Loan doubled = floats(participant, 0, 3);
          double sum = 0;
          for (std::size_t i = 0; i < 3; ++i) {
            const float number = question.numbers.tensor().as<float>()[i];
            sum += number;
            doubled.as<float>()[i] = 2 * number;
          }
          return Sum{.sum = sum, .doubled = std::move(doubled)};
        },
        participant);
  }
  // What is thrown at a client whose service's callback throws `thrown`.
  template <typename Thrown>
  ServiceError failure_of(const Thrown& thrown) {
    const Serving serving(service_of([&](const Content&) -> Content { throw thrown; }));
    try {
      (void)Client("service", {}, participant).call({}, kLong);
    } catch (const ServiceError& error) {
      return error;
    }
    return {"nobody", "nothing", "", ""};
  }

  const FreshDomain domain;
  const Participant participant = domain.join();
  Client client{"service", {.timeout = kLong}, participant};
};

TEST_F(AService, answers_with_fields_and_tensors) {
  const Serving serving(service_of([&](const Content& request) {
    const auto id = request.fields.at("id").as<std::int64_t>();
    const float first = request.tensor("image").as<float>()[0];
    return Content(Value::Map{{"id", id + 1}, {"result", TensorIndex{0}}},
                   {floats(participant, first + 1)});
  }));
  for (const float first : {1.0F, 5.0F}) {
    const Content reply = client.call(
        {Value::Map{{"id", 7}, {"image", TensorIndex{0}}}, {floats(participant, first)}});
    EXPECT_EQ(reply.fields.at("id"), Value(8));
    EXPECT_TRUE(is_filled(reply.tensor("result").as<float>(), first + 1));
  }
}

TEST_F(AService, answers_with_values_alone_and_tensors_alone) {
  const Serving serving(service_of(echo));
  EXPECT_EQ(client.call({}).fields, Value());
  EXPECT_EQ(client.call({"text"}).fields, Value("text"));
  EXPECT_EQ(client.call({Value::Map{{"data", 1}}}).fields, Value(Value::Map{{"data", 1}}));
  const float ordinary[] = {3, 4};
  const Content reply = client.call({TensorView::of(ordinary, {2})});
  EXPECT_TRUE(is_filled(reply.tensor().as<float>(), 3));
  EXPECT_EQ(code_of([&] { (void)client.call({}).tensor(); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { (void)client.call({Value::Map{}}).tensor("x"); }),
            Code::kInvalidArgument);
}

TEST_F(AService, answers_structs) {
  const Serving serving(summing());
  const Sum sum = client.call<Sum>(Question{.numbers = floats(participant, 1, 3), .unit = {}});
  EXPECT_EQ(sum.sum, 6);
  EXPECT_EQ(sum.doubled.tensor().as<float>()[2], 6);
}

TEST_F(AService, of_structs_serves_clients_without_types_and_newer_ones) {
  const Serving serving(summing());
  const Content reply =
      client.call({Value::Map{{"numbers", TensorIndex{0}}}, {floats(participant, 1, 3)}});
  EXPECT_EQ(reply.fields.at("sum"), Value(6.0));
  EXPECT_EQ(reply.tensor("doubled").as<float>()[0], 2);
  EXPECT_EQ(client.call<Sum>(NewerQuestion{.numbers = floats(participant, 2, 3)}).sum, 9);
  try {
    (void)client.call({Value::Map{{"numbers", "none"}}});
    FAIL();
  } catch (const ServiceError& error) {
    EXPECT_EQ(error.kind(), "TypeMismatch");
    EXPECT_EQ(error.text(), "test.Question.numbers: expected a tensor, this is a string");
  }
}

TEST_F(AService, of_other_types_says_so_with_both) {
  Service service = summing();
  auto call = std::async(std::launch::async, [&] {
    try {
      (void)client.call<Sum>(OtherQuestion{});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kTypeMismatch);
      return std::string(error.what());
    }
    return std::string();
  });
  ASSERT_TRUE(serve_one(service));
  const std::string text = call.get();
  EXPECT_NE(text.find("service 'service': its request is of another type: "), text.npos) << text;
  EXPECT_NE(text.find(message_type<OtherQuestion>().definition()), text.npos) << text;
  EXPECT_NE(text.find(message_type<Question>().definition()), text.npos) << text;
  EXPECT_EQ(service.stats().refused, 1U);
  call = std::async(std::launch::async, [&] {
    const Question question{.numbers = floats(participant, 1), .unit = {}};
    EXPECT_EQ(code_of([&] { (void)client.call<Question>(question); }), Code::kTypeMismatch);
    return std::string();
  });
  ASSERT_TRUE(serve_one(service));
  call.get();
  EXPECT_EQ(service.stats().refused, 2U);
}

TEST_F(AService, whose_callback_throws_tells_what) {
  const ServiceError range = failure_of(std::out_of_range("no such row"));
  EXPECT_EQ(range.code(), Code::kService);
  EXPECT_EQ(range.kind(), "std::out_of_range");
  EXPECT_EQ(range.text(), "no such row");
  EXPECT_STREQ(range.what(), "service 'service' raised std::out_of_range: no such row");
  EXPECT_EQ(failure_of(Error(Code::kOutOfMemory, "full")).kind(), "OutOfMemory");
  EXPECT_EQ(failure_of(7).kind(), "unknown exception");
}

TEST_F(AService, tells_what_was_nested_in_an_exception) {
  const Serving serving(service_of([](const Content&) -> Content {
    try {
      throw std::out_of_range("no such row");
    } catch (...) {
      std::throw_with_nested(Error(Code::kUnsupported, "no mean"));
    }
  }));
  try {
    (void)client.call({});
    FAIL();
  } catch (const ServiceError& error) {
    EXPECT_EQ(error.kind(), "Unsupported");
    EXPECT_EQ(error.trace(), "Unsupported: no mean\n  from std::out_of_range: no such row\n");
  }
}

TEST_F(AService, whose_reply_cannot_be_sent_has_failed) {
  const Serving serving(service_of([](const Content& request) {
    Layout layout = Layout::contiguous(DType::kFloat32, {2});
    layout.strides = {1, 1};  // of another rank
    const bool bad = request.fields == Value("bad");
    return bad ? Content(TensorView{&layout, layout}) : Content("good");
  }));
  EXPECT_EQ(code_of([&] { (void)client.call({"bad"}); }), Code::kService);
  EXPECT_EQ(client.call({"?"}).fields, Value("good"));
}

TEST_F(AService, drops_what_is_no_request) {
  Service service = service_of(echo);
  Queue requests = Queue::open("service:service", kLong, {}, participant);
  Queue replies({}, participant);
  const std::string reply_to = replies.address();
  const Value::List types{"", ""};
  const Note notes[] = {
      Note(7),
      Note(Value::Map{{"reply", reply_to}, {"types", types}}),
      Note(Value::Map{{"reply", 1}, {"types", types}, {"data", 1}}),
      Note(Value::Map{{"reply", reply_to}, {"types", Value::List{"", 1}}, {"data", 1}}),
      Note(Value::Map{{"reply", "no address"}, {"types", types}, {"data", 1}}),
      Note(Value::Map{{"reply", reply_to}, {"types", Value::List{"", "", ""}}, {"data", 1}})};
  for (const Note& note : notes) {
    ASSERT_EQ(requests.put(note.message()), Outcome::kDone);
    ASSERT_TRUE(serve_one(service));
  }
  EXPECT_EQ(service.stats().calls, 6U);
  EXPECT_EQ(service.stats().dropped, 6U);
  EXPECT_EQ(service.stats().failed, 0U);
  EXPECT_EQ(replies.stats().unfinished, 0U);
  auto reply = std::async(std::launch::async, [&] { return client.call({7}).fields; });
  ASSERT_TRUE(serve_one(service));
  EXPECT_EQ(reply.get(), Value(7));
}

TEST_F(AService, drops_what_is_not_one_whole_value) {
  Service service = service_of(echo);
  Queue requests = Queue::open("service:service", kLong, {}, participant);
  Queue replies({}, participant);
  const std::vector<std::byte> whole =
      Value(Value::Map{{"reply", replies.address()}, {"types", Value::List{"", ""}}, {"data", 1}})
          .encode();
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{1});
  std::vector<std::byte> short_of_a_pair = whole;
  short_of_a_pair[0] = std::byte{0x84};
  const std::span<const std::byte> cut(whole.data(), whole.size() - 1);
  for (const std::span<const std::byte> bytes :
       {std::span<const std::byte>(longer), std::span<const std::byte>(short_of_a_pair), cut}) {
    ASSERT_EQ(requests.put({.fields = bytes}), Outcome::kDone);
    ASSERT_TRUE(serve_one(service));
  }
  EXPECT_EQ(service.stats().dropped, 3U);
  EXPECT_EQ(replies.stats().unfinished, 0U);
  ASSERT_EQ(requests.put({.fields = whole}), Outcome::kDone);
  ASSERT_TRUE(serve_one(service));
  EXPECT_EQ(replies.stats().unfinished, 1U);
}

TEST_F(AService, is_not_waited_for_after_a_time_that_is_over) {
  bool has_come = false;
  Service service = service_of([&](const Content& request) {
    has_come = request.fields == Value(8);
    return request;
  });
  for (int i = 0; i < 2; ++i)  // without a known server, and with one
    EXPECT_EQ(code_of([&] { (void)client.call({7}, -1ns); }), Code::kTimeout);
  auto reply = std::async(std::launch::async, [&] { return client.call({8}).fields; });
  while (!has_come) ASSERT_TRUE(serve_one(service));
  EXPECT_EQ(reply.get(), Value(8));
}

TEST_F(AService, reads_requests_with_keys_that_it_does_not_know) {
  Service service = service_of(echo);
  Queue requests = Queue::open("service:service", kLong, {}, participant);
  Queue replies({}, participant);
  const Value::Map nested{{"reply", Value::List{1, Value::Map{{2, "x"}}}}};
  const Note note(Value::Map{{7, nested},
                             {"later", nested},
                             {"data", Value::List{nested, 1.5}},
                             {"types", Value::List{"", ""}},
                             {"reply", replies.address()},
                             {"reply", "not this one"}});
  ASSERT_EQ(requests.put(note.message()), Outcome::kDone);
  ASSERT_TRUE(serve_one(service));
  Sample answer;
  ASSERT_EQ(replies.get(answer, kLong), Outcome::kDone);
  EXPECT_EQ(answer.fields(), Value(Value::Map{{"data", Value::List{nested, 1.5}}}));
}

TEST_F(AService, that_is_not_there_is_a_timeout) {
  EXPECT_EQ(code_of([&] { (void)client.call({}, 1ms); }), Code::kTimeout);
  EXPECT_EQ(client.wait_for_service(1ms), Outcome::kTimedOut);
  EXPECT_EQ(client.wait_for_service(kLong, [] { return true; }), Outcome::kInterrupted);
  EXPECT_EQ(code_of([&] { (void)client.call({}, kLong, [] { return true; }); }), Code::kTimeout);
}

TEST_F(AService, that_comes_later_is_waited_for) {
  auto reply = std::async(std::launch::async, [&] { return client.call({7}).fields; });
  const Serving serving(service_of(echo));
  EXPECT_EQ(reply.get(), Value(7));
  EXPECT_EQ(client.wait_for_service(kLong), Outcome::kDone);
}

TEST_F(AService, that_answers_late_reaches_nobody) {
  Service service = service_of(echo);
  EXPECT_EQ(code_of([&] { (void)client.call({1}, 1ms); }), Code::kTimeout);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(code_of([&] { (void)client.call({2}, kLong, stop.get_token()); }), Code::kTimeout);
  auto reply = std::async(std::launch::async, [&] { return client.call({3}).fields; });
  while (service.stats().calls < 3) ASSERT_TRUE(serve_one(service));
  EXPECT_EQ(reply.get(), Value(3));
}

TEST_F(AService, answers_each_thread_its_own) {
  const Serving serving(service_of(echo));
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 100; ++i)
        EXPECT_EQ(client.call({1000 * thread + i}).fields, Value(1000 * thread + i));
    });
}

TEST_F(AService, that_ends_has_given_its_answers) {
  for (int i = 0; i < 20; ++i) {
    std::optional<Service> service(service_of(echo));
    auto reply = std::async(std::launch::async, [&] {
      Client asking("service", {}, participant);
      return asking.call({i}, kLong).fields;
    });
    ASSERT_TRUE(serve_one(*service));
    service.reset();
    EXPECT_EQ(reply.get(), Value(i));
  }
}

TEST_F(AService, that_ends_ends_calls) {
  std::optional<Service> service(service_of(echo));
  auto call = std::async(std::launch::async,
                         [&] { return code_of([&] { (void)client.call({1}, kLong); }); });
  pollfd polled{service->descriptor(), POLLIN, 0};
  ASSERT_EQ(::poll(&polled, 1, 30'000), 1);
  service.reset();
  EXPECT_EQ(call.get(), Code::kClosed);
}

TEST_F(AService, whose_queue_somebody_closes_says_so) {
  Service service = service_of(echo);
  EXPECT_EQ(service.try_serve(), Outcome::kTimedOut);
  Queue::open("service:service", kLong, {}, participant).close();
  pollfd polled{service.descriptor(), POLLIN, 0};
  ASSERT_EQ(::poll(&polled, 1, 30'000), 1);
  EXPECT_EQ(service.try_serve(), Outcome::kClosed);
}

TEST_F(AService, that_is_polled_serves_what_comes) {
  Service service = service_of(echo);
  auto calls = std::async(std::launch::async, [&] {
    for (std::int64_t i = 0; i < 100; ++i)
      if (!(client.call(Value(i), kLong).fields == Value(i))) return false;
    return true;
  });
  for (int served = 0; served < 100;) served += service.try_serve() == Outcome::kDone ? 1 : 0;
  EXPECT_TRUE(calls.get());
  EXPECT_EQ(service.try_serve(), Outcome::kTimedOut);
}

TEST_F(AService, waits_for_a_request_with_and_without_a_descriptor) {
  Service service = service_of(echo);
  EXPECT_EQ(service.serve(1ms), Outcome::kTimedOut);
  EXPECT_EQ(service.serve(kLong, [] { return true; }), Outcome::kInterrupted);
  for (const bool polls : {false, true}) {
    if (polls) {
      EXPECT_GE(service.descriptor(), 0);
    }
    auto call = std::async(std::launch::async, [&] { return client.call(Value(7), kLong); });
    EXPECT_EQ(service.serve(kLong), Outcome::kDone);
    EXPECT_EQ(call.get().fields, Value(7));
    EXPECT_EQ(service.serve(1ms), Outcome::kTimedOut);
  }
  Queue::open("service:service", kLong, {}, participant).close();
  EXPECT_EQ(service.serve(kLong), Outcome::kClosed);
}

TEST_F(AService, needs_a_name) {
  EXPECT_EQ(code_of([&] { (void)Service("", echo, participant); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { (void)Client("", {}, participant); }), Code::kInvalidArgument);
}

}  // namespace
}  // namespace tensorbus
