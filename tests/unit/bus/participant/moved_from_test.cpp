// What was moved from says so; nothing crashes.

#include "tensorbus/bus/event_loop/fork_safe.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class MovedFrom : public ::testing::Test {
 protected:
  template <typename Call>
  static void says_so(Call call) {
    EXPECT_EQ(code_of(call), Code::kClosed);
  }

  const FreshDomain domain;
  bus::ParticipantRef participant = domain.join();
};

TEST_F(MovedFrom, a_publisher_is_closed) {
  using Handle = bus::ForkSafe<bus::Publisher>;
  Handle from(std::in_place, "topic", PublisherOptions{}, participant);
  Handle to = std::move(from);
  const std::uint64_t number = 1;
  says_so([&] { (void)from->loan<std::uint8_t>({1}); });
  says_so([&] { from->publish(TensorView::of(&number, {1})); });
  says_so([&] { from->publish(Message{}); });
  says_so([&] { from->publish(Value(1), {}); });
  says_so([&] { from->publish(pattern_loan(*to, 1)); });
  says_so([&] { (void)from->wait_for_subscribers(1, 0ns); });
  says_so([&] { (void)from->subscribers(); });
  says_so([&] { (void)from->stats(); });
  says_so([&] { from->close(); });
  EXPECT_EQ(publish_pattern(*to, 1).outcome, Outcome::kDone);
  from = std::move(to);
  EXPECT_NO_THROW((void)from->stats());
}

TEST_F(MovedFrom, a_subscriber_is_closed) {
  using Handle = bus::ForkSafe<bus::Subscriber>;
  Handle from(std::in_place, "topic", SubscriberOptions{}, participant);
  const Handle to = std::move(from);
  bus::Sample sample;
  says_so([&] { (void)from->receive(0ns); });
  says_so([&] { (void)from->try_receive(); });
  says_so([&] { (void)from->receive(sample, 0ns); });
  says_so([&] { (void)from->ready(); });
  says_so([&] { (void)from->event_descriptor(); });
  says_so([&] { (void)from->wait_for_publishers(1, 0ns); });
  says_so([&] { (void)from->stats(); });
  says_so([&] { from->close(); });
  EXPECT_NO_THROW((void)to->stats());
}

TEST_F(MovedFrom, a_participant_is_closed) {
  const bus::ParticipantRef to = std::move(participant);
  says_so([&] { (void)bus::of_this_process(participant); });
  EXPECT_EQ(bus::of_this_process(to)->domain_path(), domain.path());
}

TEST_F(MovedFrom, a_sample_is_empty) {
  const bus::Sample empty;
  EXPECT_TRUE(empty.tensors().empty());
  EXPECT_TRUE(empty.field_bytes().empty());
  EXPECT_EQ(empty.header().topic, "");
  says_so([&] { (void)empty.tensor(); });
  says_so([&] { (void)empty.tensor("image"); });
  says_so([&] { (void)empty.fields(); });
  says_so([&] { (void)empty.copy(); });
}

}  // namespace
}  // namespace tensorbus
