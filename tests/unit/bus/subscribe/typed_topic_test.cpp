// Publishers and subscribers that say which messages they mean.

#include <gtest/gtest.h>
#include <poll.h>

#include "tensorbus/bus/domain/domain.hpp"
#include "tests/fakes/fake_peer.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

const MessageType kFirst("robot.Pose\nposition: array");
const MessageType kSecond("robot.Pose\nframe: str = ...\nposition: array");
const MessageType kOther("robot.Pose\nposition: tensor");

class TypedTopic : public ::testing::Test {
 protected:
  bus::Publisher publisher_of(const MessageType& type) {
    PublisherOptions options;
    options.type = type;
    return bus::Publisher("topic", options, owner);
  }
  bus::Subscriber subscriber_of(const MessageType& type) {
    SubscriberOptions options;
    options.type = type;
    return bus::Subscriber("topic", options, borrower);
  }
  // What receive() throws.
  static std::string refusal(bus::Subscriber& subscriber) {
    try {
      (void)subscriber.receive(kLong);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kTypeMismatch);
      return error.what();
    }
    return "";
  }

  const FreshDomain domain;
  const bus::ParticipantRef owner = domain.join();
  const bus::ParticipantRef borrower = domain.join();
};

TEST_F(TypedTopic, joins_those_that_mean_the_same_or_any) {
  for (const auto& [published, expected] : {std::pair(kFirst, kFirst),
                                            {kFirst, MessageType()},
                                            {MessageType(), kFirst},
                                            {kFirst, kSecond},
                                            {kSecond, kFirst}}) {
    bus::Publisher publisher = publisher_of(published);
    bus::Subscriber subscriber = subscriber_of(expected);
    ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
    publish_patterns(publisher, 0, 1);
    const auto sample = subscriber.receive(kLong);
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->header().fingerprint, published.fingerprint());
  }
}

TEST_F(TypedTopic, says_to_a_subscriber_of_another_type_what_both_mean) {
  bus::Publisher publisher = publisher_of(kFirst);
  bus::Subscriber subscriber = subscriber_of(kOther);
  const std::string text = refusal(subscriber);
  EXPECT_EQ(text,
            "topic \"topic\": robot.Pose.position: expected tensor, published is array\n"
            "The publisher's type:\n" +
                kFirst.definition() + "\nThis subscriber's type:\n" + kOther.definition());
  EXPECT_EQ(publisher.stats().subscribers, 0U);
  EXPECT_EQ(subscriber.stats().refused, 1U);
}

TEST_F(TypedTopic, says_it_once_and_goes_on_with_others) {
  bus::Publisher wrong = publisher_of(kFirst);
  bus::Subscriber subscriber = subscriber_of(kOther);
  EXPECT_NE(refusal(subscriber), "");
  bus::Publisher right = publisher_of(kOther);
  ASSERT_EQ(right.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_patterns(right, 5, 1);
  EXPECT_EQ(next_seeds(subscriber, 1), Seeds{5});
}

TEST_F(TypedTopic, says_it_once_for_each_publisher_in_their_order) {
  bus::Subscriber subscriber = subscriber_of(kOther);
  const auto refused = [&](std::uint64_t count) {
    return eventually([&] { return subscriber.stats().refused == count; });
  };
  bus::Publisher first = publisher_of(kFirst);
  ASSERT_TRUE(refused(1));
  bus::Publisher second = publisher_of(kSecond);
  ASSERT_TRUE(refused(2));
  for (const MessageType& type : {kFirst, kSecond}) {
    EXPECT_TRUE(subscriber.ready());
    EXPECT_NE(refusal(subscriber).find("publisher's type:\n" + type.definition()),
              std::string::npos);
  }
  EXPECT_FALSE(subscriber.ready());
  EXPECT_EQ(subscriber.try_receive(), std::nullopt);
}

TEST_F(TypedTopic, says_the_last_16_when_nobody_asked_for_long) {
  bus::Subscriber subscriber = subscriber_of(MessageType("m"));
  std::vector<bus::Publisher> publishers;
  for (int i = 0; i < 20; ++i) {
    publishers.push_back(publisher_of(MessageType("m" + std::to_string(i))));
    ASSERT_TRUE(eventually([&] { return subscriber.stats().refused == publishers.size(); }));
  }
  for (int i = 4; i < 20; ++i)
    EXPECT_NE(refusal(subscriber).find("published is m" + std::to_string(i) + "\n"),
              std::string::npos);
  EXPECT_EQ(subscriber.try_receive(), std::nullopt);
}

TEST_F(TypedTopic, says_it_to_who_waits_for_publishers) {
  bus::Publisher publisher = publisher_of(kFirst);
  bus::Subscriber subscriber = subscriber_of(kOther);
  EXPECT_EQ(code_of([&] { (void)subscriber.wait_for_publishers(1, kLong); }), Code::kTypeMismatch);
}

TEST_F(TypedTopic, says_it_to_who_polls) {
  bus::Subscriber subscriber = subscriber_of(kOther);
  pollfd polled{subscriber.event_descriptor(), POLLIN, 0};
  EXPECT_EQ(subscriber.try_receive(), std::nullopt);
  bus::Publisher publisher = publisher_of(kFirst);
  do {
    ASSERT_EQ(::poll(&polled, 1, 30'000), 1);
  } while (!subscriber.ready());
  EXPECT_EQ(code_of([&] { (void)subscriber.try_receive(); }), Code::kTypeMismatch);
}

TEST_F(TypedTopic, compares_definitions_that_are_too_long_to_be_sent_by_their_fingerprints) {
  std::string text = "long";
  for (int i = 100; i < 400; ++i) text += "\nfield_" + std::to_string(i) + ": int = ...";
  const MessageType whole(text);
  const MessageType shorter(text.substr(0, text.rfind('\n')));
  bus::Publisher publisher = publisher_of(whole);
  bus::Subscriber same = subscriber_of(whole);
  EXPECT_EQ(same.wait_for_publishers(1, kLong), Outcome::kDone);
  bus::Subscriber another = subscriber_of(shorter);
  EXPECT_NE(refusal(another).find("too long"), std::string::npos);
}

TEST_F(TypedTopic, hangs_up_on_who_sends_no_definition) {
  bus::Publisher publisher = publisher_of(kFirst);
  const bus::Domain at(domain.path());
  for (const char* type : {"", "name\nfield", "name\n"}) {
    bus::testing::FakePeer peer(at.connect(owner->id()).socket);
    peer.say_hello();
    ASSERT_EQ(peer.next(), link::ControlType::kHello);
    peer.channel.send(link::Subscribe{.link = 1,
                                      .publisher = 1,
                                      .max_held = 2,
                                      .fingerprint = 7,
                                      .topic = "topic",
                                      .type = type});
    EXPECT_EQ(peer.next(), std::nullopt) << type;
  }
}

}  // namespace
}  // namespace tensorbus
