// What was moved from says so; nothing crashes.

#include "support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class MovedFromObject : public ::testing::Test {
 protected:
  template <typename Call>
  static void says_so(Call call) {
    EXPECT_EQ(code_of(call), Code::kClosed);
  }

  const FreshDomain domain;
  Participant participant = domain.join();
  Sample sample;
};

TEST_F(MovedFromObject, publisher_is_closed) {
  Publisher from("topic", {}, participant);
  Publisher to = std::move(from);
  const std::uint64_t number = 1;
  says_so([&] { (void)from.topic(); });
  says_so([&] { (void)from.type(); });
  says_so([&] { (void)from.loan<std::uint8_t>({1}); });
  says_so([&] { from.publish(TensorView::of(&number, {1})); });
  says_so([&] { from.publish(Message{}, 0ns); });
  says_so([&] { from.publish(Value(1), {}); });
  says_so([&] { from.publish(filled_loan(to, 1)); });
  says_so([&] { (void)from.wait_for_subscribers(1, 0ns); });
  says_so([&] { (void)from.stats(); });
  says_so([&] { from.close(); });
  EXPECT_EQ(to.publish(filled_loan(to, 1)).outcome, Outcome::kDone);
  from = std::move(to);
  EXPECT_EQ(from.topic(), "topic");
}

TEST_F(MovedFromObject, subscriber_is_closed) {
  Subscriber from("topic", {}, participant);
  const Subscriber to = std::move(from);
  says_so([&] { (void)from.topic(); });
  says_so([&] { (void)from.receive(0ns); });
  says_so([&] { (void)from.try_receive(); });
  says_so([&] { (void)from.receive(sample, 0ns, [] { return false; }); });
  says_so([&] { (void)from.ready(); });
  says_so([&] { (void)from.event_descriptor(); });
  says_so([&] { (void)from.wait_for_publishers(1, 0ns); });
  says_so([&] { (void)from.stats(); });
  says_so([&] { from.close(); });
  EXPECT_EQ(to.topic(), "topic");
}

TEST_F(MovedFromObject, service_and_client_are_closed) {
  Service service_from("service", [](Content request) { return request; }, participant);
  const Service service = std::move(service_from);
  says_so([&] { (void)service_from.name(); });
  says_so([&] { (void)service_from.stats(); });
  says_so([&] { (void)service_from.try_serve(); });
  says_so([&] { (void)service_from.serve(std::chrono::nanoseconds::zero()); });
  says_so([&] { (void)service_from.descriptor(); });
  EXPECT_EQ(service.name(), "service");
  Client from("service", {}, participant);
  Client to = std::move(from);
  says_so([&] { (void)from.name(); });
  says_so([&] { (void)from.call({}, 0ns); });
  says_so([&] { (void)from.wait_for_service(0ns); });
  EXPECT_EQ(to.wait_for_service(kLong), Outcome::kDone);
}

TEST_F(MovedFromObject, participant_is_closed) {
  const Participant to = std::move(participant);
  says_so([&] { (void)participant.id(); });
  says_so([&] { (void)participant.arena(); });
  says_so([&] { (void)participant.domain_path(); });
  says_so([&] { const Publisher publisher("topic", {}, participant); });
  says_so([&] { const Subscriber subscriber("topic", {}, participant); });
  says_so([&] { const Queue queue({}, participant); });
  EXPECT_EQ(to.domain_path(), domain.path());
}

TEST_F(MovedFromObject, sample_is_empty) {
  Publisher publisher("topic", {.history = 1}, participant);
  publisher.publish(filled_loan(publisher, 1));
  Subscriber subscriber("topic", {}, participant);
  ASSERT_EQ(subscriber.receive(sample, kLong), Outcome::kDone);
  const Sample to = std::move(sample);
  EXPECT_TRUE(is_filled(to.tensor().as<float>(), 1));
  for (const Sample* empty : {&sample, new Sample()}) {
    EXPECT_TRUE(empty->tensors().empty());
    EXPECT_TRUE(empty->field_bytes().empty());
    EXPECT_EQ(empty->header().topic, "");
    says_so([&] { (void)empty->tensor(); });
    says_so([&] { (void)empty->tensor("image"); });
    says_so([&] { (void)empty->fields(); });
    says_so([&] { (void)empty->copy(); });
    if (empty != &sample) delete empty;
  }
}

TEST_F(MovedFromObject, queue_and_its_requests_are_closed) {
  Queue from({}, participant);
  Queue to = std::move(from);
  says_so([&] { (void)from.put({}); });
  says_so([&] { (void)from.get(sample); });
  says_so([&] { (void)from.address(); });
  says_so([&] { (void)from.options(); });
  says_so([&] { (void)from.made_here(); });
  says_so([&] { (void)from.start_put({}); });
  says_so([&] { (void)from.start_get(); });
  says_so([&] { (void)from.start_join(); });
  says_so([&] { (void)from.join(0ns); });
  says_so([&] { (void)from.stats(); });
  says_so([&] { from.task_done(); });
  says_so([&] { from.close(); });
  Queue::Pending asked = to.start_get();
  Queue::Pending moved = std::move(asked);
  says_so([&] { (void)asked.take(sample); });
  EXPECT_EQ(asked.descriptor(), -1);
  EXPECT_EQ(moved.take(sample), Outcome::kTimedOut);
  moved.cancel();
  says_so([&] { (void)moved.take(sample); });
}

TEST_F(MovedFromObject, share_is_closed) {
  const float one = 1;
  Shared from = share({.tensors = {TensorView::of(&one, {1})}}, {}, participant);
  const Shared to = std::move(from);
  says_so([&] { (void)from.handle(); });
  EXPECT_FALSE(from.open());
  from.close();
  EXPECT_TRUE(to.open());
}

}  // namespace
}  // namespace tensorbus
