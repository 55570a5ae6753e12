// Tracers of participants, and participants that answer a tracer in their own way.

#include "tensorbus/bus/tracer.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/bus/publisher.hpp"
#include "tensorbus/bus/subscriber.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tests/fakes/fake_peer.hpp"
#include "tests/fakes/test_sockets.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus::bus {
namespace {

using namespace tensorbus::testing;
using link::ControlType;
using link::testing::fds_of;
using State = bus::Tracer::State;

bool reach(bus::Tracer& tracer, State state) {
  return eventually([&] {
    tracer.poll();
    const auto sources = tracer.sources();
    return sources.size() == 1 && sources.front().state == state;
  });
}

class ATracer : public ::testing::Test {
 protected:
  const FreshDomain fresh;
  const bus::ParticipantRef here = fresh.join();
  bus::Publisher publisher{"topic", {}, here};
};

TEST_F(ATracer, gets_what_is_published_until_it_goes) {
  std::optional<bus::Tracer> tracer;
  tracer.emplace(fresh.path(), std::vector<std::string>());
  ASSERT_TRUE(reach(*tracer, State::kTraced));
  EXPECT_TRUE(publisher.traced());
  (void)publisher.publish(Message{});
  tracer->poll();
  const auto records = tracer->take(0);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records.front().event, link::TraceEvent::kPublish);
  EXPECT_EQ(records.front().publisher, publisher.number());
  const auto source = tracer->sources().front();
  EXPECT_EQ(source.participant, here->id());
  EXPECT_EQ(source.pid, ::getpid());
  EXPECT_EQ(tracer->topics().at(to_string({here->id(), publisher.number()})), "topic");
  tracer.reset();
  EXPECT_TRUE(eventually([&] { return !publisher.traced(); }));
}

TEST_F(ATracer, goes_on_beside_a_socket_that_cannot_be_asked) {
  const std::string name = "00000000000000000000000000000001.sock";
  std::filesystem::create_symlink(name, fresh.path() + "/" + name);  // ELOOP
  bus::Tracer tracer(fresh.path(), {});
  EXPECT_TRUE(eventually([&] {
    tracer.poll();
    const auto sources = tracer.sources();
    return std::ranges::count(sources, State::kRefused, &bus::Tracer::Source::state) == 1 &&
           std::ranges::count(sources, State::kTraced, &bus::Tracer::Source::state) == 1;
  }));
  EXPECT_EQ(tracer.sources().size(), 2U);
}

TEST_F(ATracer, of_other_topics_has_nothing_of_this_one) {
  bus::Tracer tracer(fresh.path(), {"other"});
  ASSERT_TRUE(reach(tracer, State::kTraced));
  EXPECT_FALSE(publisher.traced());
  const bus::Publisher other("other", {}, here);
  EXPECT_TRUE(other.traced());
}

TEST_F(ATracer, that_comes_second_is_refused_and_comes_in_when_the_first_has_gone) {
  std::optional<bus::Tracer> first;
  first.emplace(fresh.path(), std::vector<std::string>());
  ASSERT_TRUE(reach(*first, State::kTraced));
  bus::Tracer second(fresh.path(), {});
  ASSERT_TRUE(reach(second, State::kRefused));
  EXPECT_EQ(second.sources().front().why, "process " + std::to_string(::getpid()) +
                                              " traces it already; one tracer at a time is "
                                              "possible");
  EXPECT_TRUE(publisher.traced());
  first.reset();
  EXPECT_TRUE(eventually([&] { return !publisher.traced(); }));
  bus::Tracer third(fresh.path(), {});
  EXPECT_TRUE(reach(third, State::kTraced));
}

TEST_F(ATracer, is_told_that_a_participant_has_ended) {
  const FreshDomain other;
  std::optional<bus::ParticipantRef> leaving = other.join();
  bus::Tracer tracer(other.path(), {});
  ASSERT_TRUE(reach(tracer, State::kTraced));
  leaving.reset();
  EXPECT_TRUE(reach(tracer, State::kEnded));
}

TEST_F(ATracer, refuses_more_names_of_topics_than_a_message_takes) {
  EXPECT_THROW(bus::Tracer(fresh.path(), std::vector<std::string>(5, std::string(1000, 'x'))),
               Error);
}

TEST_F(ATracer, that_goes_on_talking_is_disconnected_and_nothing_is_traced) {
  platform::Connection connection = Domain(fresh.path()).connect(here->id());
  testing::FakePeer peer(std::move(connection.socket));
  peer.channel.send(link::Trace{});
  EXPECT_EQ(peer.next(), ControlType::kTraced);
  EXPECT_TRUE(publisher.traced());
  peer.channel.send(link::Trace{});
  EXPECT_TRUE(eventually([&] { return !publisher.traced(); }));
}

TEST_F(ATracer, cannot_write_into_the_ring) {
  platform::Connection connection = Domain(fresh.path()).connect(here->id());
  testing::FakePeer peer(std::move(connection.socket));
  peer.channel.send(link::Trace{});
  ASSERT_EQ(peer.next(), ControlType::kTraced);
  const platform::Fd ring = peer.received.take_fd();
  EXPECT_THROW(
      platform::Mapping(ring.get(), link::kTraceBytes, platform::Mapping::Access::kReadWrite),
      Error);
}

// A participant that is a fake: its socket, and what it answers.
class AFakeParticipant : public ::testing::Test {
 protected:
  std::string refusal_after(const std::function<void(testing::FakePeer&)>& answer) {
    bus::Tracer tracer(fresh.path(), {});
    tracer.poll();
    testing::FakePeer peer(platform::accept_from(listener.get()));
    EXPECT_EQ(peer.next(), ControlType::kTrace);
    answer(peer);
    EXPECT_TRUE(reach(tracer, State::kRefused));
    return tracer.sources().front().why;
  }

  const FreshDomain fresh;
  const Domain domain{fresh.path()};
  const platform::Fd listener = domain.listen(Id::random());
};

TEST_F(AFakeParticipant, that_answers_nonsense_is_not_traced) {
  EXPECT_EQ(refusal_after([](testing::FakePeer& peer) { peer.channel.send(link::Done{1}); }),
            "unexpected message of type 9");
  EXPECT_NE(refusal_after([](testing::FakePeer& peer) {
              peer.channel.send(link::Traced{.layout = 99});
            }).find("layout 99"),
            std::string::npos);
  EXPECT_NE(refusal_after([](testing::FakePeer& peer) {
              peer.channel.send(link::Traced{}, fds_of(platform::make_event()));
            }).find("TRACED.ring"),
            std::string::npos);
  EXPECT_NE(refusal_after([](testing::FakePeer& peer) {
              peer.channel.send(link::Traced{},
                                fds_of(platform::create_sealed_memfd("small", 4096)));
            }).find("TRACED.ring"),
            std::string::npos);
}

TEST_F(AFakeParticipant, that_says_nothing_holds_no_tracer_up) {
  bus::Tracer tracer(fresh.path(), {});
  tracer.poll();
  tracer.poll();
  EXPECT_EQ(tracer.sources().front().state, State::kAsked);
}

}  // namespace
}  // namespace tensorbus::bus
