// A forked child: its parent's objects refuse it, and whatever it does, the parent notices nothing.

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <span>

#include "tests/unit/bus/test_support.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

// Runs `body` in a child. True if it returned true there.
bool in_child(const std::function<bool()>& body) { return test::Child(body).wait() == "exit 0"; }

// A child that does something when it is told to, and says whether it went well.
class Waiting {
 public:
  explicit Waiting(const std::function<bool()>& body) : child_([&] { return told() && body(); }) {}
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() {
    for (const int fd : start_) ::close(fd);
  }

  bool go() {
    EXPECT_EQ(::write(start_[1], "x", 1), 1);
    return child_.wait() == "exit 0";
  }

 private:
  static std::array<int, 2> open_pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    return ends;
  }
  bool told() const {
    char byte = 0;
    return ::read(start_[0], &byte, 1) == 1;
  }

  std::array<int, 2> start_ = open_pipe();
  test::Child child_;
};

class Forked : public ::testing::Test {
 protected:
  // Both ends: a descriptor that is on its way while we fork is one that the child may keep.
  Forked() {
    EXPECT_EQ(publisher->wait_for_subscribers(1, kLong), Outcome::kDone);
    EXPECT_EQ(subscriber->wait_for_publishers(1, kLong), Outcome::kDone);
  }

  bool all_comes_back() {
    return eventually([&] { return used_bytes(*owner, {&*publisher}) == 0; });
  }
  // Never empty: throws if none came.
  std::optional<bus::Sample> sample_of_4() {
    publish_patterns(*publisher, 4, 1);
    return subscriber->receive(kLong).value();
  }
  // Whether they are still those of 4, seen by a child.
  static Waiting sees_4(std::span<const std::uint64_t> words) {
    return Waiting([words] { return seed_of(words) == 4U; });
  }
  // As many as would use again whatever could be.
  void publish_many() {
    for (std::uint64_t seed = 100; seed < 200; ++seed) {
      publish_pattern(*publisher, seed);
      EXPECT_EQ(next_seeds(*subscriber, 1), Seeds{seed});
    }
  }

  const FreshDomain domain;
  std::optional<bus::ParticipantRef> owner{domain.join()};
  std::optional<bus::ParticipantRef> borrower{domain.join()};
  bus::ForkSafe<bus::Publisher> publisher{std::in_place, "topic", PublisherOptions{}, *owner};
  bus::ForkSafe<bus::Subscriber> subscriber{std::in_place, "topic", SubscriberOptions{}, *borrower};
};

TEST_F(Forked, the_parents_objects_refuse_the_child) {
  std::optional<bus::Loan> loan{pattern_loan(*publisher, 1)};
  const auto refuses = [](auto call) { return code_of(call) == Code::kForked; };
  EXPECT_TRUE(in_child([&] { return refuses([&] { (void)publisher->loan<int>({1}); }); }));
  EXPECT_TRUE(in_child([&] { return refuses([&] { publisher->publish(Message()); }); }));
  EXPECT_TRUE(in_child([&] { return refuses([&] { publisher->close(); }); }));
  EXPECT_TRUE(in_child([&] { return refuses([&] { (void)publisher->stats(); }); }));
  EXPECT_TRUE(in_child([&] { return refuses([&] { (void)subscriber->try_receive(); }); }));
  EXPECT_TRUE(in_child([&] { return refuses([&] { (void)subscriber->receive(kLong); }); }));
  EXPECT_TRUE(in_child([&] { return refuses([&] { subscriber->close(); }); }));
  EXPECT_TRUE(in_child([&] { return refuses([&] { (void)loan->data(); }); }));
}

TEST_F(Forked, the_parents_participant_is_refused) {
  const auto refused = [&] { (void)bus::of_this_process(*owner); };
  EXPECT_TRUE(in_child([&] { return code_of(refused) == Code::kForked; }));
}

TEST_F(Forked, what_the_child_destroys_stays_with_the_parent) {
  auto sample = sample_of_4();
  std::optional<bus::Loan> loan{pattern_loan(*publisher, 5)};
  const std::size_t used = used_bytes(*owner, {&*publisher});
  const auto files = domain.files();
  EXPECT_TRUE(in_child([&] {
    sample.reset();
    loan.reset();
    subscriber.reset();
    publisher.reset();
    borrower.reset();
    owner.reset();
    return true;
  }));
  EXPECT_EQ(domain.files(), files);
  EXPECT_EQ(used_bytes(*owner, {&*publisher}), used);
  EXPECT_EQ(seed_of(*sample), 4U);
  EXPECT_EQ(seed_of(loan->as<std::uint64_t>()), 5U);
  publish_patterns(*publisher, 6, 1);
  EXPECT_EQ(next_seeds(*subscriber, 1), Seeds{6});
  sample.reset();
  loan.reset();
  EXPECT_TRUE(all_comes_back());
}

TEST_F(Forked, a_sample_can_be_read_in_the_child) {
  const auto sample = sample_of_4();
  EXPECT_TRUE(in_child([&] { return seed_of(*sample) == 4U; }));
}

TEST_F(Forked, a_private_sample_is_the_childs_own_there) {
  bus::Subscriber own("topic", {.access = Access::kPrivate}, *borrower);
  ASSERT_EQ(publisher->wait_for_subscribers(2, kLong), Outcome::kDone);
  publish_patterns(*publisher, 4, 1);
  auto sample = own.receive(kLong);
  ASSERT_TRUE(sample);
  EXPECT_EQ(next_seeds(*subscriber, 1), Seeds{4});
  EXPECT_TRUE(in_child([&] {
    const bus::Tensor kept = sample->tensor();
    write_pattern(kept.as_mutable<std::uint64_t>(), 5);
    sample.reset();
    return seed_of(kept.as<std::uint64_t>()) == 5U;
  }));
  EXPECT_EQ(seed_of(*sample), 4U);
  EXPECT_GT(used_bytes(*owner, {&*publisher}), 0U) << "the child returned no lease";
  sample.reset();
  EXPECT_TRUE(all_comes_back());
}

TEST_F(Forked, a_shared_sample_can_be_written_in_the_child_and_stays_leased) {
  bus::Publisher open("open", {.shared = true}, *owner);
  bus::Subscriber writing("open", {.access = Access::kShared}, *borrower);
  ASSERT_EQ(open.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_patterns(open, 4, 1);
  auto sample = writing.receive(kLong);
  ASSERT_TRUE(sample);
  EXPECT_TRUE(in_child([&] {
    write_pattern(sample->tensor().as_mutable<std::uint64_t>(), 5);
    sample.reset();
    return true;
  }));
  EXPECT_EQ(seed_of(*sample), 5U);
  EXPECT_GT(used_bytes(*owner, {&open}), 0U);
  sample.reset();
  EXPECT_TRUE(eventually([&] { return used_bytes(*owner, {&open}) == 0; }));
}

// But for two, by which the parent sees its end, and owners that of both.
TEST_F(Forked, the_child_holds_none_of_the_parents_descriptors) {
  // A fork while a descriptor is on its way in another thread leaves that one open.
  EXPECT_TRUE(eventually([&] { return in_child([&] { return open_descriptors() < 10; }); }))
      << open_descriptors() << " here";
}

TEST_F(Forked, the_child_can_join_as_itself) {
  if (kSanitized) GTEST_SKIP() << "threads after fork() are not for sanitizers";
  const Id parent = (*owner)->id();
  EXPECT_TRUE(in_child([&] {
    const bus::ParticipantRef own = domain.join();
    bus::Subscriber listening("topic", {}, own);
    bus::Publisher answering("answers", {}, own);
    return listening.wait_for_publishers(1, kLong) == Outcome::kDone && own->id() != parent;
  }));
  EXPECT_TRUE(eventually([&] { return publisher->subscribers() == 1; })) << "its own has gone";
  publish_patterns(*publisher, 1, 1);
  EXPECT_EQ(next_seeds(*subscriber, 1), Seeds{1});
}

TEST_F(Forked, the_shared_participant_of_a_child_is_another) {
  if (kSanitized) GTEST_SKIP() << "threads after fork() are not for sanitizers";
  ParticipantOptions options;
  options.domain = domain.path();
  const bus::ParticipantRef shared = bus::shared_participant(options);
  EXPECT_EQ(bus::shared_participant(options)->id(), shared->id());
  EXPECT_TRUE(in_child([&] {
    const bus::ParticipantRef own = bus::shared_participant(options);
    return own->id().hex() != "" && bus::shared_participant(options)->id() == own->id();
  }));
}

TEST_F(Forked, what_was_received_stays_what_it_was_in_the_child) {
  auto sample = sample_of_4();
  Waiting child = sees_4(sample->tensor().as<std::uint64_t>());
  sample.reset();
  EXPECT_TRUE(eventually([&] { return (*borrower)->memory_use().forked_children == 1; }));
  publish_many();
  EXPECT_EQ((*owner)->memory_use().inherited_bytes, 512U);
  EXPECT_EQ((*borrower)->memory_use().inherited_leases, 0U) << "of a participant of this process";
  EXPECT_TRUE(child.go());
  EXPECT_TRUE(all_comes_back());
  EXPECT_TRUE(eventually([&] { return (*borrower)->memory_use().forked_children == 0; }));
}

TEST_F(Forked, what_the_parent_owned_stays_what_it_was_in_the_child) {
  auto loan = std::make_optional(pattern_loan(*publisher, 4));
  const auto words = loan->as<std::uint64_t>();
  Waiting child([&] {
    const bool good = seed_of(words) == 4U;
    write_pattern(words, 5);  // meets nobody
    return good;
  });
  loan.reset();
  EXPECT_EQ((*owner)->memory_use().inherited_bytes, 512U);
  publish_many();
  publish_patterns(*publisher, 6, 1);
  const auto kept = subscriber->receive(kLong);
  EXPECT_TRUE(child.go());
  EXPECT_EQ(seed_of(*kept), 6U);
  EXPECT_TRUE(eventually([&] { return (*owner)->memory_use().inherited_bytes == 0; }));
}

TEST_F(Forked, what_was_published_before_stays_what_it_was_in_the_child) {
  auto loan = pattern_loan(*publisher, 4);
  const auto words = loan.as<std::uint64_t>();
  publisher->publish(std::move(loan));
  Waiting child = sees_4(words);
  EXPECT_EQ(next_seeds(*subscriber, 1), Seeds{4});
  publish_many();
  EXPECT_TRUE(child.go());
  EXPECT_TRUE(all_comes_back());
}

TEST_F(Forked, what_came_after_the_fork_is_used_again_beside_a_child_that_lives) {
  (void)pattern_loan(*publisher, 1);
  publish_many();
  Waiting child([] { return true; });
  publish_many();
  const ArenaUse first = (*owner)->memory_use();
  publish_many();
  EXPECT_EQ((*owner)->memory_use().used_bytes, first.used_bytes);
  EXPECT_EQ((*owner)->memory_use().inherited_bytes, first.inherited_bytes);
  EXPECT_EQ((*borrower)->memory_use().inherited_leases, 0U);
}

TEST_F(Forked, what_a_private_sample_shows_stays_in_the_child) {
  bus::Subscriber own("topic", {.access = Access::kPrivate}, *borrower);
  ASSERT_EQ(publisher->wait_for_subscribers(2, kLong), Outcome::kDone);
  publish_patterns(*publisher, 4, 1);
  EXPECT_EQ(next_seeds(*subscriber, 1), Seeds{4});
  auto sample = own.receive(kLong);
  ASSERT_TRUE(sample);
  Waiting child = sees_4(sample->tensor().as<std::uint64_t>());
  sample.reset();
  own.close();
  publish_many();
  EXPECT_TRUE(child.go());
  EXPECT_TRUE(all_comes_back());
}

TEST_F(Forked, a_lease_outlives_its_subscriber_and_its_participant_for_the_child) {
  auto sample = sample_of_4();
  Waiting child = sees_4(sample->tensor().as<std::uint64_t>());
  sample.reset();
  subscriber.reset();
  borrower.reset();
  EXPECT_TRUE(eventually([&] { return publisher->subscribers() == 0; }));
  for (std::uint64_t seed = 100; seed < 200; ++seed) publish_pattern(*publisher, seed);
  EXPECT_TRUE(child.go());
  EXPECT_TRUE(all_comes_back());
}

TEST_F(Forked, the_budget_names_what_children_hold) {
  bus::ParticipantRef small{domain.join({.budget_bytes = std::size_t{1} << 20})};
  bus::Publisher large("large", {}, small);
  std::optional<bus::Loan> loan{pattern_loan(large, 1, 100'000)};
  Waiting child([] { return true; });
  loan.reset();
  std::string told;
  try {
    (void)pattern_loan(large, 2, 100'000);
  } catch (const Error& error) {
    told = error.what();
  }
  EXPECT_NE(told.find("802816 bytes"), std::string::npos) << told;
  EXPECT_NE(told.find("of which a forked child of this process still holds"), std::string::npos)
      << told;
  EXPECT_TRUE(child.go());
  EXPECT_TRUE(eventually([&] { return small->memory_use().inherited_bytes == 0; }));
  EXPECT_EQ(seed_of(pattern_loan(large, 2, 100'000).as<std::uint64_t>()), 2U);
}

}  // namespace
}  // namespace tensorbus
