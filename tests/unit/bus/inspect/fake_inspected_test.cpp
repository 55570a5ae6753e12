// inspect() of participants that answer in their own way, or not at all.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <list>
#include <optional>
#include <thread>

#include "tensorbus/bus/domain/advertisement.hpp"
#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/inspect/report_codec.hpp"
#include "tensorbus/bus/inspection.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tests/fakes/fake_peer.hpp"
#include "tests/fakes/test_sockets.hpp"

namespace tensorbus::bus {
namespace {

using namespace tensorbus::testing;
using link::ControlType;
using link::testing::fds_of;
using testing::FakePeer;

class FakeInspected : public ::testing::Test {
 protected:
  // What inspect() says of the fake, whose `answer` is called when the question has come.
  ParticipantReport asked(const std::function<void(FakePeer&)>& answer,
                          std::chrono::nanoseconds timeout = kLong) {
    std::thread fake([&] {
      EXPECT_TRUE(eventually([&] {
        if (platform::Fd socket = platform::accept_from(listener.get()))
          peer.emplace(std::move(socket));
        return peer.has_value();
      }));
      EXPECT_EQ(peer->next(), ControlType::kInspect);
      answer(*peer);
    });
    const Inspection found = bus::inspect(fresh.path(), timeout);
    fake.join();
    // The others are not affected.
    EXPECT_EQ(found.participants.size(), 2U);
    ParticipantReport fake_one;
    for (const ParticipantReport& report : found.participants)
      if (report.participant == self)
        fake_one = report;
      else
        EXPECT_EQ(report.error, "");
    EXPECT_EQ(fake_one.pid, static_cast<std::uint32_t>(::getpid()));
    return fake_one;
  }
  std::string error_after(const std::function<void(FakePeer&)>& answer) {
    return asked(answer).error;
  }
  std::string error_after(const link::Inspected& answer, std::vector<platform::Fd> fds) {
    return error_after([&](FakePeer& fake) { fake.channel.send(answer, std::move(fds)); });
  }
  std::string error_after(const std::vector<std::byte>& report) {
    return error_after({report.size()}, fds_of(platform::sealed_copy("x", report)));
  }

  const FreshDomain fresh;
  const bus::ParticipantRef other = fresh.join();
  const Domain domain{fresh.path()};
  const Id self = Id::random();
  const platform::Fd listener = domain.listen(self);
  std::optional<FakePeer> peer;
};

TEST_F(FakeInspected, that_answers_is_taken_for_the_one_of_its_socket) {
  ParticipantReport said;
  said.participant = other->id();
  said.pid = 1;
  said.version = "9";
  const ParticipantReport report = asked([&](FakePeer& fake) {
    const std::vector<std::byte> bytes = encode_report(said);
    fake.channel.send(link::Inspected{bytes.size()}, fds_of(platform::sealed_copy("x", bytes)));
  });
  EXPECT_EQ(report.error, "");
  EXPECT_EQ(report.version, "9");
  EXPECT_EQ(report.participant, self);
}

TEST_F(FakeInspected, of_an_older_version_is_said_to_be_so) {
  const std::string error = error_after([](FakePeer& fake) {
    auto datagram = link::encode_control(link::Refused{0, 0, "expected HELLO first"});
    datagram[6] = std::byte{9};  // ControlHeader::version
    (void)platform::send_datagram(fake.channel.fd(), datagram, {});
  });
  EXPECT_NE(error.find("its protocol version is 9"), std::string::npos) << error;
  EXPECT_NE(error.find("expected HELLO first"), std::string::npos) << error;
}

TEST_F(FakeInspected, that_says_something_else_is_told_apart) {
  EXPECT_NE(error_after([](FakePeer& fake) { fake.channel.send(link::Done{1}); }), "");
}

TEST_F(FakeInspected, that_sends_noise_is_told_apart) {
  const std::string error = error_after([](FakePeer& fake) {
    const std::vector<std::byte> noise(4000, std::byte{0x5a});
    (void)platform::send_datagram(fake.channel.fd(), noise, {});
  });
  EXPECT_NE(error.find("wrong magic"), std::string::npos) << error;
}

TEST_F(FakeInspected, that_sends_no_memory_or_too_much_of_it_is_told_apart) {
  EXPECT_NE(error_after({4096}, {}), "");
}

TEST_F(FakeInspected, with_too_many_descriptors_is_told_apart) {
  EXPECT_NE(error_after({4096}, fds_of(link::testing::some_pipe(), link::testing::some_pipe())),
            "");
}

TEST_F(FakeInspected, with_a_pipe_for_memory_is_told_apart) {
  EXPECT_NE(error_after({4096}, fds_of(link::testing::some_pipe())), "");
}

TEST_F(FakeInspected, with_memory_that_can_shrink_is_told_apart) {
  EXPECT_NE(error_after({4096}, fds_of(link::testing::unsealed_memfd(4096))), "");
}

TEST_F(FakeInspected, with_a_size_that_is_not_that_of_its_memory_is_told_apart) {
  EXPECT_NE(error_after({8192}, fds_of(platform::create_sealed_memfd("x", 4096))), "");
}

TEST_F(FakeInspected, with_a_huge_report_is_told_apart) {
  const std::size_t bytes = kMaxReportBytes + 1;
  const std::string error = error_after({bytes}, fds_of(platform::create_sealed_memfd("x", bytes)));
  EXPECT_NE(error.find("too large"), std::string::npos) << error;
}

TEST_F(FakeInspected, whose_huge_report_is_invalid_takes_no_room_from_others) {
  std::vector<platform::Fd> listeners;
  for (int i = 0; i < 5; ++i) listeners.push_back(domain.listen(Id::random()));  // 4 fill the room
  std::thread fakes([&] {
    for (const platform::Fd& one : listeners) {
      std::optional<FakePeer> fake;
      EXPECT_TRUE(eventually([&] {
        if (platform::Fd socket = platform::accept_from(one.get())) fake.emplace(std::move(socket));
        return fake.has_value();
      }));
      EXPECT_EQ(fake->next(), ControlType::kInspect);
      fake->channel.send(link::Inspected{kMaxReportBytes}, fds_of(link::testing::some_pipe()));
      EXPECT_EQ(fake->next(), std::nullopt);
    }
  });
  const Inspection found = bus::inspect(fresh.path(), std::chrono::seconds(2));
  fakes.join();
  for (const ParticipantReport& report : found.participants)
    EXPECT_EQ(report.error.find("too large"), std::string::npos) << report.error;
}

// A test process with more sockets in the domain than it may have descriptors.
TEST_F(FakeInspected,
       that_cannot_be_connected_for_want_of_descriptors_is_tried_until_the_time_out) {
  const auto socket = fresh.path() + "/" + socket_name(self);
  for (int i = 0; i < 300; ++i)
    std::filesystem::create_hard_link(socket, fresh.path() + "/" + socket_name(Id::random()));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit lower{.rlim_cur = 200, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lower), 0);
  const Inspection found = bus::inspect(fresh.path(), std::chrono::milliseconds(200));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_GE(found.participants.size(), 301U);
  for (const ParticipantReport& report : found.participants)
    EXPECT_EQ(report.error.find("interrupted"), std::string::npos) << report.error;
}

TEST_F(FakeInspected, whose_report_is_noise_is_told_apart) {
  EXPECT_NE(error_after(std::vector<std::byte>(4096, std::byte{0xc1})), "");
}

TEST_F(FakeInspected, whose_report_is_cut_short_is_told_apart) {
  std::vector<std::byte> bytes = encode_report({});
  bytes.pop_back();
  EXPECT_NE(error_after(bytes), "");
}

TEST_F(FakeInspected, whose_report_announces_more_than_it_has_is_told_apart) {
  std::vector<std::byte> bytes(1 << 20, std::byte{0xdd});  // lists of 0xdddddddd parts, nested
  EXPECT_NE(error_after(bytes), "");
}

TEST_F(FakeInspected, of_a_newer_version_is_read_as_far_as_it_is_known) {
  std::vector<std::byte> bytes = encode_report({});
  ASSERT_EQ(bytes.front(), std::byte{0x9d});  // a list of 13 fields
  bytes.front() = std::byte{0x9f};
  for (const int byte : {0xc3, 0x92, 0xa1, 0x78, 0xc4, 0x01, 0x00})  // true, ["x", one byte]
    bytes.push_back(static_cast<std::byte>(byte));
  EXPECT_EQ(error_after(bytes), "");
}

TEST_F(FakeInspected, that_hangs_up_is_told_apart) {
  const std::string error = error_after([&](FakePeer&) { peer.reset(); });
  EXPECT_NE(error.find("closed the connection"), std::string::npos) << error;
}

TEST_F(FakeInspected, that_says_nothing_costs_the_time_out_and_is_known_by_its_markers) {
  domain.add_marker(marker_name(escape_topic("a/b"), self, 1), encode({.pid = 1, .name = "a/b"}));
  domain.add_marker(marker_name("node=camera", self, 2), encode({.pid = 1, .name = "camera"}));
  const auto began = platform::Clock::now();
  const ParticipantReport report = asked([](FakePeer&) {}, 200ms);
  EXPECT_GE(platform::Clock::now() - began, 200ms);
  EXPECT_NE(report.error.find("no answer within 0.2 s"), std::string::npos) << report.error;
  EXPECT_EQ(report.topics, std::vector<std::string>{"a/b"});
  EXPECT_EQ(report.nodes, std::vector<std::string>{"camera"});
}

// The other side: inspectors that do not do as inspect() does.
class FakeInspector : public ::testing::Test {
 protected:
  FakePeer connected() const { return FakePeer(domain.connect(participant->id()).socket); }

  const FreshDomain fresh;
  const bus::ParticipantRef participant = fresh.join();
  const Domain domain{fresh.path()};
};

TEST_F(FakeInspector, that_asks_twice_is_cut_off) {
  FakePeer peer = connected();
  peer.channel.send(link::Inspect{});
  EXPECT_EQ(peer.next(), ControlType::kInspected);
  peer.channel.send(link::Inspect{});
  EXPECT_EQ(peer.next(), std::nullopt);
}

TEST_F(FakeInspector, that_says_hello_after_its_question_is_cut_off) {
  FakePeer peer = connected();
  peer.channel.send(link::Inspect{});
  EXPECT_EQ(peer.next(), ControlType::kInspected);
  peer.say_hello();
  EXPECT_EQ(peer.next(), std::nullopt);
}

TEST_F(FakeInspector, that_asks_after_hello_is_cut_off) {
  FakePeer peer = connected();
  peer.say_hello();
  EXPECT_EQ(peer.next(), ControlType::kHello);
  peer.channel.send(link::Inspect{});
  EXPECT_EQ(peer.next(), std::nullopt);
}

TEST_F(FakeInspector, that_sends_descriptors_is_cut_off) {
  FakePeer peer = connected();
  peer.channel.send(link::Inspect{}, fds_of(link::testing::some_pipe()));
  EXPECT_EQ(peer.next(), std::nullopt);
}

TEST_F(FakeInspector, of_any_version_is_answered) {
  FakePeer peer = connected();
  auto question = link::encode_control(link::Inspect{});
  question[6] = std::byte{200};  // ControlHeader::version
  (void)platform::send_datagram(peer.channel.fd(), question, {});
  EXPECT_EQ(peer.next(), ControlType::kInspected);
}

TEST_F(FakeInspector, that_never_reads_keeps_no_other_from_asking) {
  std::list<FakePeer> idle;
  for (int i = 0; i < 40; ++i) {
    idle.emplace_back(domain.connect(participant->id()).socket);
    idle.back().channel.send(link::Inspect{});
  }
  const Inspection found = bus::inspect(fresh.path(), kLong);
  ASSERT_EQ(found.participants.size(), 1U);
  EXPECT_EQ(found.participants.front().error, "");
}

}  // namespace
}  // namespace tensorbus::bus
