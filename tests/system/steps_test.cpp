// A process is killed, or stopped for a while, at every kill point of the protocol
// (platform/kill_point.hpp). Whatever the point: the others go on, get all of their memory and
// descriptors back, and see no wrong byte.

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "support.hpp"
#include "tensorbus/bus/share.hpp"
#include "tensorbus/platform/kill_point.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

constexpr std::uint64_t kFirstSeed = 1000;
constexpr int kOfEach = 3;  // participants and endpoints, so that every point is passed three times

// Points that a process passes as a publisher, and as a subscriber.
const std::vector<std::string_view> kAsPublisher = {"socket.bound",
                                                    "socket.listening",
                                                    "hello.sent",
                                                    "link.adopted",
                                                    "accepted.sent",
                                                    "loan.allocated",
                                                    "publish.copied",
                                                    "publish.described",
                                                    "publish.issued",
                                                    "publish.segment_sent",
                                                    "publish.entry_written",
                                                    "publish.entry_full",
                                                    "publish.woken",
                                                    "drop.taken",
                                                    "close.marker_removed"};
const std::vector<std::string_view> kAsSubscriber = {"socket.bound",
                                                     "socket.listening",
                                                     "hello.sent",
                                                     "subscribe.sent",
                                                     "receive.popped",
                                                     "receive.described",
                                                     "receive.nothing_found",
                                                     "release.token_written",
                                                     "release.tail_moved",
                                                     "accepted.received",
                                                     "segment.received",
                                                     "unsubscribe.sent",
                                                     "done.sent"};

// And as one that shares and attaches. The others are passed by those who hand on
// (handing_on_test.cpp).
const std::vector<std::string_view> kAsSharer = {"request.sent", "lent.sent", "return.sent"};
const std::vector<std::string_view> kAsMiddleman = {"acquire.received", "handed.sent"};
// And one that puts into a queue (putting_test.cpp).
const std::vector<std::string_view> kAsProducer = {"put_ring.written", "put_ring.committed",
                                                   "put_ring.wakes"};
const std::vector<std::string_view> kAsGetter = {"get_ring.read",  // getting_test.cpp
                                                 "get_ring.acquired"};

using Place = std::tuple<std::string_view, int>;  // the n-th passage of a point

// The survivors are three participants of this process.
class Steps : public ::testing::TestWithParam<Place> {
 protected:
  Steps() {
    for (int i = 0; i < kOfEach; ++i) participants.push_back(domain.join());
    between.emplace("between", PublisherOptions{.depth = 4}, participants[0]);
    between_here.emplace("between", SubscriberOptions{}, participants[1]);
    EXPECT_EQ(between->wait_for_subscribers(1, kLong), Outcome::kDone);
    survivors_go_on();
  }

  static std::string order(const std::string& action) {
    const auto& [point, passage] = GetParam();
    return std::string(point) + ":" + std::to_string(passage) + ":" + action;
  }
  void survivors_go_on() {
    publish_patterns(*between, 77, 3);
    EXPECT_EQ(next_seeds(*between_here, 3), seeds_from(77, 3));
  }

  // What the victim does on its way past all points.
  std::vector<std::string> script(const std::string& endpoint,
                                  const std::vector<std::string>& then) {
    std::vector<std::string> commands{endpoint};
    for (int i = 1; i < kOfEach; ++i) commands.insert(commands.end(), {"join", endpoint});
    commands.insert(commands.end(), then.begin(), then.end());
    return commands;
  }
  virtual std::vector<std::string> script() = 0;
  // What the survivors do meanwhile, again and again.
  virtual void meanwhile() {}

  void tell(Peer& victim) {
    for (const std::string& command : script()) victim.tell(command);
  }
  void dies(Peer& victim) {
    ASSERT_TRUE(eventually([&] {
      meanwhile();
      return victim.has_ended();
    })) << "it did not come to this point";
    EXPECT_TRUE(WIFSIGNALED(victim.exit_status()));
    victim.close_pipes();
  }
  void is_stopped_and_goes_on(Peer& victim) {
    ASSERT_TRUE(victim.wait_until_stopped());
    survivors_go_on();
    Peer newcomer(domain);
    EXPECT_EQ(newcomer.ask("publisher newcomer"), "ok");
    EXPECT_EQ(newcomer.ask("leave"), "ok");
    victim.signal(SIGCONT);
    std::thread reading([&] {
      for (const std::string& command : script()) {
        const std::string reply = victim.reply();
        EXPECT_EQ(reply.substr(0, 2), "ok") << command << ": " << reply;
        EXPECT_EQ(reply.find("torn"), std::string::npos) << command << ": " << reply;
        if (reply.substr(0, 2) != "ok") break;
      }
      EXPECT_EQ(victim.ask("leave"), "ok");
      victim.close_pipes();
      done = true;
    });
    EXPECT_TRUE(eventually([&] {
      meanwhile();
      return done.load();
    }));
    reading.join();
    EXPECT_EQ(victim.exit_status(), 0);
  }

  // Nothing of the victim is left, and a new process finds a bus as good as new.
  void all_is_as_before() {
    survivors_go_on();
    EXPECT_TRUE(eventually([&] { return open_descriptors() <= descriptors; }))
        << open_descriptors() << " descriptors, there were " << descriptors;
    EXPECT_TRUE(eventually([&] { return used() == used_before; }))
        << used() << " bytes, there were " << used_before;
    {
      Peer fresh(domain);
      ASSERT_EQ(fresh.ask("publisher fresh seed=5"), "ok");
      bus::Subscriber subscriber("fresh", {}, participants[2]);
      ASSERT_EQ(fresh.ask("await_subscribers 1"), "ok");
      ASSERT_EQ(fresh.ask("publish 2"), "ok");
      EXPECT_EQ(next_seeds(subscriber, 2), seeds_from(5, 2));
      ASSERT_EQ(fresh.ask("leave"), "ok");
    }
    EXPECT_TRUE(eventually([&] { return domain.files() == files; }))
        << domain.files().size() << " files, there were " << files.size();
  }

  std::size_t used() {
    std::vector<bus::Publisher*> all{&*between};
    for (bus::Publisher& publisher : publishers) all.push_back(&publisher);
    std::size_t bytes = 0;
    for (const bus::ParticipantRef& participant : participants)
      bytes += used_bytes(participant, all);
    return bytes;
  }
  void remember() {
    descriptors = open_descriptors();
    files = domain.files();
    used_before = used();
  }

  const FreshDomain domain;
  std::vector<bus::ParticipantRef> participants;
  std::optional<bus::Publisher> between;
  std::optional<bus::Subscriber> between_here;
  std::vector<bus::Publisher> publishers;
  std::atomic<bool> done{false};
  std::size_t descriptors = 0;
  std::size_t used_before = 0;
  std::set<std::string> files;
};

class StepsOfAPublisher : public Steps {
 protected:
  StepsOfAPublisher() {
    for (int i = 0; i < kOfEach; ++i)
      subscribers.emplace_back("topic", SubscriberOptions{}, participants[i]);
    remember();
  }
  std::vector<std::string> script() override {
    return Steps::script(
        "publisher topic depth=2 history=2 seed=" + std::to_string(kFirstSeed),
        {"await_subscribers 3", "publish 4", "publish 4 copy words=1000", "close_publishers"});
  }

  // Everything that came is whole and in order. It is held until the end.
  void receive_all() {
    for (bus::Subscriber& subscriber : subscribers) {
      std::map<std::pair<Id, std::uint32_t>, std::uint64_t> next;
      while (auto sample = subscriber.try_receive()) {
        const SampleHeader& header = sample->header();
        std::uint64_t& expected = next[{header.publisher, header.publisher_number}];
        EXPECT_GE(header.sequence, expected);
        expected = header.sequence + 1;
        EXPECT_EQ(seed_of(*sample), kFirstSeed + header.sequence);
        held.push_back(std::move(*sample));
      }
      EXPECT_EQ(subscriber.stats().bad, 0U);
    }
  }
  void everybody_forgets_it() {
    for (bus::Subscriber& subscriber : subscribers)
      EXPECT_TRUE(eventually([&] {
        receive_all();
        return subscriber.stats().publishers == 0;
      }));
    for (const bus::Sample& sample : held)
      EXPECT_EQ(seed_of(sample), kFirstSeed + sample.header().sequence);
    held.clear();
  }

  std::vector<bus::Subscriber> subscribers;
  std::vector<bus::Sample> held;
};

TEST_P(StepsOfAPublisher, a_death_costs_the_others_nothing) {
  Peer victim(domain, order("kill"));
  tell(victim);
  dies(victim);
  everybody_forgets_it();
  all_is_as_before();
}

class StopsOfAPublisher : public StepsOfAPublisher {};

TEST_P(StopsOfAPublisher, a_stop_costs_the_others_nothing_and_itself_only_time) {
  Peer victim(domain, order("stop"));
  tell(victim);
  is_stopped_and_goes_on(victim);
  everybody_forgets_it();
  all_is_as_before();
}

// Many messages at once: those that are visible are whole, and nothing is left of the others.
class StepsOfRows : public StepsOfAPublisher {
 protected:
  std::vector<std::string> script() override {
    return Steps::script("publisher topic depth=3 history=2 seed=" + std::to_string(kFirstSeed),
                         {"await_subscribers 3", "publish_rows 2", "publish_rows 7",
                          "publish_rows 7", "close_publishers"});
  }
};

TEST_P(StepsOfRows, a_death_costs_the_others_nothing) {
  Peer victim(domain, order("kill"));
  tell(victim);
  dies(victim);
  everybody_forgets_it();
  all_is_as_before();
}

TEST_P(StepsOfRows, a_stop_costs_the_others_nothing_and_itself_only_time) {
  Peer victim(domain, order("stop"));
  tell(victim);
  is_stopped_and_goes_on(victim);
  everybody_forgets_it();
  all_is_as_before();
}

class StepsOfASubscriber : public Steps {
 protected:
  StepsOfASubscriber() {
    for (int i = 0; i < kOfEach; ++i) {
      publishers.emplace_back(
          "topic", PublisherOptions{.depth = 2, .history = 2, .reliable = i == 0, .timeout = 20ms},
          participants[i]);
      publish_patterns(publishers.back(), 0, 2);
    }
    remember();
  }
  std::vector<std::string> script() override {
    return Steps::script("subscriber topic", {"await_publishers 3", "receive 2 keep", "let_go",
                                              "receive 4", "look", "close_subscribers"});
  }
  void meanwhile() override {
    for (bus::Publisher& publisher : publishers) (void)publish_pattern(publisher, ++seed);
  }
  void everybody_forgets_it() {
    for (bus::Publisher& publisher : publishers)
      EXPECT_TRUE(eventually([&] { return publisher.subscribers() == 0; }));
  }

  std::uint64_t seed = 100;
};

TEST_P(StepsOfASubscriber, a_death_costs_the_others_nothing) {
  Peer victim(domain, order("kill"));
  tell(victim);
  dies(victim);
  everybody_forgets_it();
  all_is_as_before();
}

class StopsOfASubscriber : public StepsOfASubscriber {};

TEST_P(StopsOfASubscriber, a_stop_costs_the_others_nothing_and_itself_only_time) {
  Peer victim(domain, order("stop"));
  tell(victim);
  is_stopped_and_goes_on(victim);
  everybody_forgets_it();
  all_is_as_before();
}

class StepsOfAReaderOfRows : public StepsOfASubscriber {
 protected:
  std::vector<std::string> script() override {
    return Steps::script("subscriber topic", {"await_publishers 3", "receive_into 2",
                                              "receive_into 6", "close_subscribers"});
  }
};

TEST_P(StepsOfAReaderOfRows, a_death_costs_the_others_nothing) {
  Peer victim(domain, order("kill"));
  tell(victim);
  dies(victim);
  everybody_forgets_it();
  all_is_as_before();
}

// What the victim shares it attaches itself, beside what a survivor shares.
class StepsOfASharer : public Steps {
 protected:
  StepsOfASharer() {
    std::vector<std::uint64_t> words(64);
    write_pattern(words, kFirstSeed);
    shared.emplace(share({.tensors = {TensorView::of(words.data(), {64})}}, {}, participants[0]));
    for (const bus::ParticipantRef& each : participants)
      held.push_back(attach(shared->handle(), {}, each));
    remember();
  }
  std::vector<std::string> script() override {
    const std::string attach = "attach " + shared->handle().text();
    return Steps::script("share 9", {"attach own", attach, "share_kept", "attach own", attach,
                                     "attach own", "close_shares", "let_go"});
  }
  void everybody_forgets_it() {
    held.push_back(attach(shared->handle(), {.timeout = kLong}, participants[2]));
    for (const bus::Sample& sample : held) EXPECT_EQ(seed_of(sample), kFirstSeed);
  }

  std::optional<bus::Shared> shared;
  std::vector<bus::Sample> held;
};

TEST_P(StepsOfASharer, a_death_costs_the_others_nothing) {
  Peer victim(domain, order("kill"));
  tell(victim);
  dies(victim);
  everybody_forgets_it();
  all_is_as_before();
}

TEST_P(StepsOfASharer, a_stop_costs_the_others_nothing_and_itself_only_time) {
  Peer victim(domain, order("stop"));
  tell(victim);
  is_stopped_and_goes_on(victim);
  everybody_forgets_it();
  all_is_as_before();
}

std::string place_name(const ::testing::TestParamInfo<Place>& place) {
  std::string name =
      std::string(std::get<0>(place.param)) + "_" + std::to_string(std::get<1>(place.param));
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

const auto kPassages = ::testing::Values(1, kOfEach);

INSTANTIATE_TEST_SUITE_P(At, StepsOfAPublisher,
                         ::testing::Combine(::testing::ValuesIn(kAsPublisher), kPassages),
                         place_name);
INSTANTIATE_TEST_SUITE_P(
    At, StepsOfRows,
    ::testing::Combine(::testing::Values("publish.copied", "publish.described", "publish.issued",
                                         "publish.segment_sent", "publish.entry_written",
                                         "publish.entry_full", "publish.woken", "drop.taken"),
                       kPassages),
    place_name);
INSTANTIATE_TEST_SUITE_P(At, StepsOfAReaderOfRows,
                         ::testing::Combine(::testing::Values("receive.popped", "receive.described",
                                                              "release.token_written",
                                                              "release.tail_moved"),
                                            kPassages),
                         place_name);
INSTANTIATE_TEST_SUITE_P(At, StepsOfASubscriber,
                         ::testing::Combine(::testing::ValuesIn(kAsSubscriber), kPassages),
                         place_name);
INSTANTIATE_TEST_SUITE_P(At, StepsOfASharer,
                         ::testing::Combine(::testing::ValuesIn(kAsSharer), kPassages), place_name);
INSTANTIATE_TEST_SUITE_P(At, StopsOfAPublisher,
                         ::testing::Combine(::testing::Values("socket.bound", "socket.listening",
                                                              "accepted.sent", "publish.issued",
                                                              "publish.entry_written",
                                                              "publish.entry_full", "drop.taken"),
                                            ::testing::Values(1)),
                         place_name);
INSTANTIATE_TEST_SUITE_P(
    At, StopsOfASubscriber,
    ::testing::Combine(::testing::Values("subscribe.sent", "receive.popped",
                                         "receive.nothing_found", "segment.received",
                                         "unsubscribe.sent", "release.token_written"),
                       ::testing::Values(1)),
    place_name);

// A subscriber that looks by its event descriptor finds nothing, and is stopped just there.
class NothingFound : public ::testing::Test {
 protected:
  void stops_while_it_looks(const std::string& command = "look") {
    ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
    publish_patterns(publisher, 1, 1);
    ASSERT_EQ(polling.ask("receive 1 keep"), "ok 1");
    polling.tell(command);
    ASSERT_TRUE(polling.wait_until_stopped());
  }
  std::string goes_on() {
    polling.signal(SIGCONT);
    return polling.reply();
  }

  const FreshDomain domain;
  const bus::ParticipantRef here = domain.join();
  bus::Publisher publisher{"topic", {}, here};
  Peer polling{domain, "receive.nothing_found:1:stop"};
};

TEST_F(NothingFound, a_sample_that_comes_then_is_found) {
  ASSERT_EQ(polling.ask("subscriber topic"), "ok");
  stops_while_it_looks();
  publish_patterns(publisher, 2, 1);
  EXPECT_EQ(goes_on(), "ok 2 timed_out silent");
}

// It cannot be taken, but the descriptor has to tell: nobody signals it for a sample from before it
// was armed.
TEST_F(NothingFound, a_sample_beyond_the_limit_of_held_ones_that_comes_then_is_told) {
  ASSERT_EQ(polling.ask("subscriber topic held=1"), "ok");
  stops_while_it_looks();
  publish_patterns(publisher, 2, 1);
  EXPECT_EQ(goes_on(), "ok hold_limit readable");
  ASSERT_EQ(polling.ask("let_go"), "ok");
  EXPECT_EQ(polling.ask("look"), "ok 2 timed_out silent");
}

TEST_F(NothingFound, ready_tells_of_a_sample_beyond_the_limit_that_comes_then) {
  ASSERT_EQ(polling.ask("subscriber topic held=1"), "ok");
  stops_while_it_looks("ready");
  publish_patterns(publisher, 2, 1);
  EXPECT_EQ(goes_on(), "ok yes readable");
}

TEST(AllSteps, none_is_forgotten_here) {
  std::set<std::string_view> tested(kAsPublisher.begin(), kAsPublisher.end());
  for (const auto* more : {&kAsSubscriber, &kAsSharer, &kAsMiddleman, &kAsProducer, &kAsGetter})
    tested.insert(more->begin(), more->end());
  EXPECT_EQ(tested, (std::set<std::string_view>(platform::kKillPoints.begin(),
                                                platform::kKillPoints.end())));
}

}  // namespace
}  // namespace tensorbus
