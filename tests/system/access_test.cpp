// The three ways to receive, between processes.

#include "support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class Ways : public ::testing::Test {
 protected:
  // Tells all subscribers to take one sample and to keep it.
  static void all_keep_one(const std::vector<Peer*>& subscribers, const std::string& seed) {
    for (Peer* subscriber : subscribers) ASSERT_EQ(subscriber->ask("receive 1 keep"), "ok " + seed);
  }
  void publishes(const std::string& options, std::size_t subscribers) {
    ASSERT_EQ(publisher.ask("await_subscribers " + std::to_string(subscribers)), "ok");
    ASSERT_EQ(publisher.ask("publish 1 hold " + options), "ok");
  }
  bool all_is_back() {
    return eventually([&] { return publisher.ask("used") == "ok 0"; });
  }

  const FreshDomain domain;
  Peer publisher{domain};
  Peer one{domain};
  Peer two{domain};
};

class PrivateAccess : public Ways {
 protected:
  PrivateAccess() {
    EXPECT_EQ(publisher.ask("publisher topic seed=1"), "ok");
    EXPECT_EQ(one.ask("subscriber topic private"), "ok");
  }
};

TEST_F(PrivateAccess, is_seen_by_no_other_process) {
  ASSERT_EQ(two.ask("subscriber topic"), "ok");
  publishes("words=10000", 2);
  all_keep_one({&one, &two}, "1");
  EXPECT_EQ(one.ask("write 50"), "ok");
  EXPECT_EQ(one.ask("check_kept"), "ok 50");
  EXPECT_EQ(two.ask("check_kept"), "ok 1");
  EXPECT_EQ(publisher.ask("check_loans"), "ok 1");
  EXPECT_EQ(two.ask("force 5 protect"), "refused EACCES");
}

TEST_F(PrivateAccess, outlives_the_publisher) {
  publishes("words=100000", 1);
  all_keep_one({&one}, "1");
  publisher.kill_and_wait();
  EXPECT_EQ(one.ask("check_kept"), "ok 1") << "pages that it never wrote";
  EXPECT_EQ(one.ask("write 50"), "ok");
  EXPECT_EQ(one.ask("check_kept"), "ok 50");
}

TEST_F(PrivateAccess, gives_its_leases_back_when_it_dies) {
  ASSERT_EQ(publisher.ask("await_subscribers 1"), "ok");
  ASSERT_EQ(publisher.ask("publish 3 words=10000"), "ok");
  ASSERT_EQ(one.ask("receive 2 keep"), "ok 1 2");
  ASSERT_EQ(one.ask("write 50"), "ok");
  one.kill_and_wait();
  EXPECT_TRUE(all_is_back());
}

TEST_F(PrivateAccess, leaves_a_stream_whole_for_others) {
  Peer reliable(domain);
  ASSERT_EQ(reliable.ask("publisher stream reliable depth=4"), "ok");
  ASSERT_EQ(two.ask("subscriber stream private"), "ok");
  const bus::ParticipantRef here = domain.join();
  bus::Subscriber reading("stream", {}, here);
  bus::Subscriber writing("stream", {.access = Access::kPrivate}, here);
  ASSERT_EQ(reliable.ask("await_subscribers 3"), "ok");
  constexpr std::uint64_t kCount = 1000;
  reliable.tell("publish 1000 words=700");
  two.tell("receive 1000 scribble");
  for (std::uint64_t seed = 0; seed < kCount; ++seed) {
    const auto mine = writing.receive(kLong);
    ASSERT_TRUE(mine);
    ASSERT_EQ(seed_of(*mine), seed);
    write_pattern(mine->tensor().as_mutable<std::uint64_t>(), seed + 7);
    ASSERT_EQ(next_seeds(reading, 1), Seeds{seed});
  }
  EXPECT_EQ(reliable.reply(), "ok");
  EXPECT_EQ(two.reply().substr(0, 8), "ok 0 1 2");
}

class SharedAccess : public Ways {
 protected:
  SharedAccess() {
    EXPECT_EQ(publisher.ask("publisher topic shared seed=1"), "ok");
    EXPECT_EQ(one.ask("subscriber topic shared"), "ok");
  }
};

TEST_F(SharedAccess, is_seen_by_all_processes) {
  Peer reading(domain);
  ASSERT_EQ(two.ask("subscriber topic shared"), "ok");
  ASSERT_EQ(reading.ask("subscriber topic"), "ok");
  publishes("words=10000", 3);
  all_keep_one({&one, &two, &reading}, "1");
  std::uint64_t seed = 50;
  for (Peer* writer : {&one, &two}) {
    const std::string written = std::to_string(++seed);
    EXPECT_EQ(writer->ask("write " + written), "ok");
    for (Peer* peer : {&one, &two, &reading}) EXPECT_EQ(peer->ask("check_kept"), "ok " + written);
    EXPECT_EQ(publisher.ask("check_loans"), "ok " + written);
  }
}

TEST_F(SharedAccess, is_not_for_who_asked_to_read) {
  ASSERT_EQ(two.ask("subscriber topic"), "ok");
  publishes("words=10000", 2);
  all_keep_one({&one, &two}, "1");
  EXPECT_EQ(two.ask("write 5"),
            "error this tensor is read-only: to write to it, subscribe with "
            "Access::kPrivate (only this subscriber sees writes) or Access::kShared "
            "(all processes see them), or copy it");
  EXPECT_EQ(two.ask("force 5 protect"), "refused EACCES");
  EXPECT_EQ(two.ask("force 5"), "dead");
  const int status = two.exit_status();
  if (!kSanitized) {
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
  }
  EXPECT_EQ(one.ask("check_kept"), "ok 1");
  EXPECT_EQ(publisher.ask("check_loans"), "ok 1");
}

TEST_F(SharedAccess, of_one_process_stands_beside_its_read_access) {
  ASSERT_EQ(one.ask("subscriber topic"), "ok");
  publishes("", 2);
  ASSERT_EQ(one.ask("receive 1 keep"), "ok 1 1");
  EXPECT_EQ(one.ask("write 5").substr(0, 31), "error this tensor is read-only:") << "the second";
  EXPECT_EQ(one.ask("check_kept"), "ok 5 5") << "the first was written, and the second sees it";
}

TEST_F(SharedAccess, gives_its_leases_back_when_it_dies) {
  ASSERT_EQ(publisher.ask("await_subscribers 1"), "ok");
  ASSERT_EQ(publisher.ask("publish 3"), "ok");
  ASSERT_EQ(one.ask("receive 2 keep"), "ok 1 2");
  ASSERT_EQ(one.ask("write 50"), "ok");
  one.kill_and_wait();
  EXPECT_TRUE(all_is_back());
  ASSERT_EQ(two.ask("subscriber topic shared"), "ok");
  ASSERT_EQ(publisher.ask("await_subscribers 1"), "ok");
  ASSERT_EQ(publisher.ask("publish 1"), "ok");
  EXPECT_EQ(two.ask("receive 1"), "ok 4");
}

TEST_F(SharedAccess, is_refused_by_a_publisher_that_is_not_shared) {
  Peer closed(domain);
  ASSERT_EQ(closed.ask("publisher other"), "ok");
  ASSERT_EQ(two.ask("subscriber other shared"), "ok");
  const std::string refusal = two.ask("await_refusal");
  EXPECT_NE(refusal.find("shared=True"), std::string::npos) << refusal;
  EXPECT_EQ(closed.ask("publish 20"), "ok");
}

}  // namespace
}  // namespace tensorbus
