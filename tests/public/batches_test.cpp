// Services that get several requests at once.

#include <future>
#include <stdexcept>

#include "services.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

using Requests = std::span<Content>;
using Replies = std::vector<Content>;

class Batches : public ::testing::Test {
 protected:
  Service service_of(Service::BatchCallback callback, const ServiceOptions& options) {
    return Service::batched("service", std::move(callback), options, participant);
  }
  // The reply to a number, or the code of the error.
  std::future<Value> ask(std::int64_t number) {
    return std::async(std::launch::async, [this, number] {
      try {
        return client.call({number}).fields;
      } catch (const Error& error) {
        return Value(error.code() == Code::kService ? "failed" : error.what());
      }
    });
  }
  std::vector<std::future<Value>> ask_all(std::int64_t count) {
    std::vector<std::future<Value>> replies;
    for (std::int64_t i = 0; i < count; ++i) replies.push_back(ask(i));
    return replies;
  }
  void wait_for_requests(std::uint64_t count) {
    const Queue requests = Queue::open("service:service", kLong, {}, participant);
    ASSERT_TRUE(eventually([&] { return requests.stats().items == count; }));
  }

  const FreshDomain domain;
  const Participant participant = domain.join();
  Client client{"service", {.timeout = kLong}, participant};
};

// Doubles each, and notes how many there were.
Service::BatchCallback doubling(std::vector<std::size_t>& sizes) {
  return [&sizes](Requests requests) {
    sizes.push_back(requests.size());
    Replies replies;
    for (const Content& request : requests)
      replies.emplace_back(Value(2 * request.fields.as<std::int64_t>()));
    return replies;
  };
}

TEST_F(Batches, are_full_before_the_time_is_over) {
  std::vector<std::size_t> sizes;
  Service service = service_of(doubling(sizes), {.batch = 4, .max_wait = std::chrono::hours(1)});
  auto replies = ask_all(4);
  ASSERT_EQ(service.serve(kLong), Outcome::kDone);
  for (std::int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(replies[static_cast<std::size_t>(i)].get(), Value(2 * i));
  EXPECT_EQ(sizes, std::vector<std::size_t>{4});
  EXPECT_EQ(service.stats().calls, 4U);
  EXPECT_EQ(service.stats().batches, 1U);
}

TEST_F(Batches, are_what_came_when_the_time_is_over) {
  std::vector<std::size_t> sizes;
  Service service = service_of(doubling(sizes), {.batch = 4, .max_wait = 1ms});
  auto reply = ask(3);
  ASSERT_EQ(service.serve(kLong), Outcome::kDone);
  EXPECT_EQ(reply.get(), Value(6));
  EXPECT_EQ(sizes, std::vector<std::size_t>{1});
}

TEST_F(Batches, are_what_waits_already_for_a_call_that_does_not_wait) {
  std::vector<std::size_t> sizes;
  Service service = service_of(doubling(sizes), {.batch = 3, .max_wait = std::chrono::hours(1)});
  auto replies = ask_all(5);
  wait_for_requests(5);
  EXPECT_EQ(service.try_serve(), Outcome::kDone);
  EXPECT_EQ(service.try_serve(), Outcome::kDone);
  EXPECT_EQ(service.try_serve(), Outcome::kTimedOut);
  EXPECT_EQ(sizes, (std::vector<std::size_t>{3, 2}));
  for (auto& reply : replies) EXPECT_TRUE(reply.get().is<std::int64_t>());
}

TEST_F(Batches, end_early_when_they_are_stopped) {
  std::vector<std::size_t> sizes;
  Service service = service_of(doubling(sizes), {.batch = 2, .max_wait = std::chrono::hours(1)});
  auto reply = ask(1);
  wait_for_requests(1);
  EXPECT_EQ(service.serve(kLong, [&] { return service.stats().calls == 1; }), Outcome::kDone);
  EXPECT_EQ(reply.get(), Value(2)) << "the request that was taken is answered";
}

TEST_F(Batches, are_served_by_an_executor) {
  std::vector<std::size_t> sizes;
  {
    const Serving serving(service_of(doubling(sizes), {.batch = 8, .max_wait = 1ms}));
    auto replies = ask_all(20);
    for (std::int64_t i = 0; i < 20; ++i)
      EXPECT_EQ(replies[static_cast<std::size_t>(i)].get(), Value(2 * i));
  }
  std::size_t sum = 0;
  for (const std::size_t size : sizes) sum += size;
  EXPECT_EQ(sum, 20U);
}

TEST_F(Batches, fail_for_every_client) {
  int calls = 0;
  Service service = service_of(
      [&](Requests) -> Replies {
        if (++calls == 1) throw std::runtime_error("broken");
        return Replies(1);  // too few
      },
      {.batch = 2, .max_wait = std::chrono::hours(1)});
  for (int i = 0; i < 2; ++i) {
    auto replies = ask_all(2);
    ASSERT_EQ(service.serve(kLong), Outcome::kDone);
    for (auto& reply : replies) EXPECT_EQ(reply.get(), Value("failed"));
  }
  EXPECT_EQ(service.stats().failed, 4U);
}

TEST_F(Batches, with_a_reply_that_cannot_be_sent_fail_for_its_client_alone) {
  Service service = service_of(
      [&](Requests requests) {
        Layout layout = Layout::contiguous(DType::kFloat32, {2});
        layout.strides = {1, 1};  // of another rank
        Replies replies;
        for (const Content& request : requests)
          replies.push_back(request.fields == Value(1) ? Content(TensorView{&layout, layout})
                                                       : Content("good"));
        return replies;
      },
      {.batch = 3, .max_wait = std::chrono::hours(1)});
  auto replies = ask_all(3);
  ASSERT_EQ(service.serve(kLong), Outcome::kDone);
  EXPECT_EQ(replies[0].get(), Value("good"));
  EXPECT_EQ(replies[1].get(), Value("failed"));
  EXPECT_EQ(replies[2].get(), Value("good"));
}

TEST_F(Batches, leave_out_what_is_no_request) {
  std::vector<std::size_t> sizes;
  Service service = service_of(doubling(sizes), {.batch = 1, .max_wait = std::chrono::hours(1)});
  Queue requests = Queue::open("service:service", kLong, {}, participant);
  ASSERT_EQ(requests.put(Note(7).message()), Outcome::kDone);
  auto reply = ask(4);
  ASSERT_EQ(service.serve(kLong), Outcome::kDone);
  EXPECT_EQ(reply.get(), Value(8));
  EXPECT_EQ(service.stats().dropped, 1U);
  EXPECT_EQ(sizes, std::vector<std::size_t>{1});
}

TEST_F(Batches, need_a_size_and_a_time) {
  const auto refused = [&](const ServiceOptions& options) {
    return code_of([&] { (void)service_of([](Requests) { return Replies(); }, options); });
  };
  EXPECT_EQ(refused({.batch = 0}), Code::kInvalidArgument);
  EXPECT_EQ(refused({.batch = 1, .max_wait = -1ms}), Code::kInvalidArgument);
}

}  // namespace
}  // namespace tensorbus
