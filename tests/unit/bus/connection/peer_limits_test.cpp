// What other processes have this one take, and what stays for the program itself.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/bus/connection/connection.hpp"
#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/bus/domain/topic_name.hpp"
#include "tests/fakes/fake_peer.hpp"
#include "tests/fakes/test_sockets.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::bus {
namespace {

using namespace tensorbus::testing;
using link::ControlType;
using testing::FakePeer;

constexpr rlim_t kDescriptors = 128;
constexpr std::size_t kForPeers = 120;  // all but a sixteenth

// Two processes that wait for each other.
class Turns {
 public:
  Turns() { EXPECT_EQ(::pipe(there_.data()) + ::pipe(back_.data()), 0); }
  ~Turns() {
    for (const int fd : {there_[0], there_[1], back_[0], back_[1]}) ::close(fd);
  }
  void tell() const { EXPECT_EQ(::write(there_[1], "x", 1), 1); }
  void hear() const { read_from(back_[0]); }
  void tell_back() const { EXPECT_EQ(::write(back_[1], "x", 1), 1); }
  void hear_there() const { read_from(there_[0]); }

 private:
  static void read_from(int fd) {
    char byte = 0;
    EXPECT_EQ(::read(fd, &byte, 1), 1);
  }
  std::array<int, 2> there_{};
  std::array<int, 2> back_{};
};

void limit_descriptors() {
  const rlimit limit{kDescriptors, kDescriptors};
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

bool round_trip(const bus::ParticipantRef& here) {
  bus::Publisher publisher("own", {}, here);
  bus::Subscriber subscriber("own", {}, here);
  if (publisher.wait_for_subscribers(1, kLong) != Outcome::kDone) return false;
  publish_patterns(publisher, 1, 1);
  return next_seeds(subscriber, 1) == Seeds{1};
}

Id only_participant(const Domain& domain) {
  for (const std::string& file : domain.list())
    if (file.ends_with(".sock")) return Id::parse(file.substr(0, 32)).value();
  return {};
}

TEST(ManyConnections, of_one_process_leave_descriptors_to_the_program_and_to_others) {
  const FreshDomain fresh;
  const Turns turns;
  test::Child owner([&] {
    limit_descriptors();
    const bus::ParticipantRef here = fresh.join();
    const bus::Publisher publisher("topic", {}, here);
    turns.tell_back();
    turns.hear_there();  // they have all they get
    const bool left = platform::open_descriptors() <= kForPeers && round_trip(here);
    turns.tell_back();
    turns.hear_there();  // they are gone
    return left && eventually([] { return platform::open_descriptors() < 40; });
  });
  turns.hear();
  const Domain domain(fresh.path());
  const Id owner_id = only_participant(domain);
  std::vector<std::unique_ptr<FakePeer>> greeted;
  std::string refusal;
  for (int i = 0; i < 200; ++i) {
    auto peer = std::make_unique<FakePeer>(domain.connect(owner_id).socket);
    peer->say_hello();
    const auto answer = peer->next();
    if (answer == ControlType::kHello) {
      greeted.push_back(std::move(peer));
    } else if (answer == ControlType::kRefused) {
      refusal = peer->received.as<link::Refused>().text;
      EXPECT_EQ(peer->received.as<link::Refused>().code,
                static_cast<std::uint32_t>(Code::kOutOfMemory));
    }
  }
  EXPECT_GT(greeted.size(), 30U);
  EXPECT_LE(greeted.size(), kForPeers / 2);
  EXPECT_NE(refusal.find("RLIMIT_NOFILE is 128"), std::string::npos) << refusal;
  turns.tell();
  turns.hear();
  greeted.clear();
  turns.tell();
  EXPECT_EQ(owner.wait(), "exit 0");
}

TEST(NoDescriptor, is_left_for_others_by_the_one_in_reserve_and_each_connection_hears_why) {
  const FreshDomain fresh;
  const Turns turns;
  test::Child owner([&] {
    limit_descriptors();
    const bus::ParticipantRef here = fresh.join();
    // In a turn: the event loop itself must not hold one for a moment, and give it back after this.
    here->context().loop.run_in_turn([] {
      while (::dup(0) >= 0) {
      }
    });
    bool found = false;
    for (int i = 0; i < 2; ++i) {
      turns.tell_back();
      turns.hear_there();  // it was refused
      found = found || ::dup(0) >= 0;
    }
    return !found;
  });
  const Domain domain(fresh.path());
  for (int i = 0; i < 2; ++i) {
    turns.hear();
    FakePeer peer(domain.connect(only_participant(domain)).socket);
    ASSERT_EQ(peer.next(), ControlType::kRefused);
    EXPECT_NE(peer.received.as<link::Refused>().text.find("RLIMIT_NOFILE is 128"),
              std::string::npos);
    turns.tell();
  }
  EXPECT_EQ(owner.wait(), "exit 0");
}

TEST(ManySilentOwners, leave_descriptors_to_the_program_and_honest_ones_are_found) {
  const FreshDomain fresh;
  const Turns turns;
  test::Child borrower([&] {
    limit_descriptors();
    const bus::ParticipantRef here = fresh.join();
    const bus::Subscriber subscriber("topic", {}, here);
    turns.tell_back();
    turns.hear_there();  // they are there
    const bool refused = eventually([&] {
      return subscriber.stats().last_refusal.find("RLIMIT_NOFILE is 128") != std::string::npos;
    });
    const bool left = platform::open_descriptors() <= kForPeers && round_trip(here);
    turns.tell_back();
    turns.hear_there();  // they are gone
    return refused && left && eventually([] { return platform::open_descriptors() < 40; });
  });
  turns.hear();
  const Domain domain(fresh.path());
  std::vector<std::pair<std::string, platform::Fd>> silent;
  for (int i = 0; i < 150; ++i) {
    const Id id = Id::random();
    silent.emplace_back(socket_name(id), domain.listen(id));
    domain.add_marker(marker_name(escape_topic("topic"), id, 1));
  }
  turns.tell();
  turns.hear();
  silent.clear();
  for (const std::string& file : domain.list())
    if (file.find("topic") != std::string::npos) domain.remove_file(file);
  turns.tell();
  EXPECT_EQ(borrower.wait(), "exit 0");
}

// Or what it has us take would keep the room from coming for which its message waits.
TEST(Connection, with_a_peer_that_hung_up_ends_though_its_message_met_a_limit) {
  EventLoop loop;
  loop.start();
  auto [ours, theirs] = link::testing::connected_sockets();
  std::atomic<int> heard{0};
  std::atomic<bool> ended{false};
  std::optional<Connection> conversation;
  loop.post([&] {
    conversation.emplace(
        loop, std::move(ours),
        [&](link::Channel::Received&) {
          ++heard;
          throw Error(Code::kOutOfMemory, "no room");
        },
        [&](const std::string&) { ended = true; });
  });
  std::optional<link::Channel> peer(std::in_place, std::move(theirs), [](bool) {});
  peer->send(link::Done{1});
  EXPECT_TRUE(eventually([&] { return heard > 2; }));
  EXPECT_FALSE(ended) << "it lives";
  peer.reset();
  EXPECT_TRUE(eventually([&] { return ended.load(); }));
  loop.stop();
}

}  // namespace
}  // namespace tensorbus::bus
