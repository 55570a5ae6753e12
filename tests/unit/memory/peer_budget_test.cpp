#include "tensorbus/memory/peer_budget.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tensorbus/memory/host/borrowed_segments.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::memory {
namespace {

using platform::Fd;
using Clock = std::chrono::steady_clock;

class Peers : public ::testing::Test {
 protected:
  // A connection to this process.
  PeerAccount account() const { return account_of(*budget); }
  static PeerAccount account_of(PeerBudget& budget) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    const Fd ours(ends[0]);
    const Fd theirs(ends[1]);
    return budget.account_of(ours.get());
  }
  static std::string why(const PeerAccount& account, const PeerCost& cost) {
    std::string text;
    EXPECT_EQ(test::error_of([&] { (void)account.take(cost); }, &text), "OutOfMemory") << text;
    return text;
  }

  const std::shared_ptr<PeerBudget> budget = std::make_shared<PeerBudget>();
};

TEST_F(Peers, connections_of_one_process_share_what_one_process_may_have) {
  const PeerAccount first = account();
  const PeerAccount second = account();
  std::vector<PeerCharge> charges;
  std::string text;
  const auto take_all = [&] {
    for (std::size_t i = 0; i < 1'000'000; ++i)
      charges.push_back((i % 2 == 0 ? first : second).take({.mappings = 1}));
  };
  EXPECT_EQ(test::error_of(take_all, &text), "OutOfMemory");
  EXPECT_NE(text.find("vm.max_map_count is"), std::string::npos) << text;
  EXPECT_NE(text.find(std::to_string(::getpid())), std::string::npos) << text;
  EXPECT_GT(charges.size(), 1000U);
  EXPECT_NE(why(second, {.mappings = 1}), "");
  charges.pop_back();
  charges.push_back(second.take({.mappings = 1}));
  EXPECT_NE(why(first, {.mappings = 1}), "");
}

TEST_F(Peers, that_get_nothing_are_charged_nothing) {
  const PeerAccount one = account();
  for (int i = 0; i < 10'000; ++i) {
    (void)why(one, {.mappings = 1, .memory_bytes = std::size_t{1} << 40});
    (void)why(one, {.mappings = std::size_t{1} << 40, .memory_bytes = 1});
  }
  (void)one.take({.mappings = 1, .memory_bytes = 1 << 20});
}

TEST_F(Peers, do_not_get_the_last_descriptors_of_the_process_whatever_their_numbers) {
  const PeerAccount one = account();  // of this process, which is another one for the child
  test::Child child([&] {
    const rlimit limit{160, 160};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    std::vector<Fd> own;
    while (platform::open_descriptors() < 149) own.push_back(platform::make_event());
    own.erase(own.begin() + 20);  // the next one takes its number
    budget->require_descriptors(2);
    own.push_back(platform::make_event());
    own.push_back(platform::make_event());
    PeerCharge last = one.take({.descriptors = 1});
    own.push_back(platform::make_event());
    std::string text;
    const bool refused =
        test::error_of([&] { (void)one.take({.descriptors = 1}); }, &text) == "OutOfMemory" &&
        test::error_of([&] { budget->require_descriptors(0); }) == "OutOfMemory";
    const PeerAccount itself =
        account();  // the last descriptors are for its connection with itself
    PeerCharge own_charge = itself.take({.descriptors = 1});
    itself.require_descriptors(1);
    return refused && text.find("RLIMIT_NOFILE is 160") != std::string::npos;
  });
  EXPECT_EQ(child.wait(), "exit 0");
}

#if !TENSORBUS_SANITIZED  // which have taken most of the addresses
TEST_F(Peers, of_one_process_leave_addresses_to_the_program) {
  constexpr std::size_t kTiB = std::size_t{1} << 40;
  std::vector<std::unique_ptr<BorrowedSegments>> owners;
  const auto add_owner = [&] {
    owners.push_back(std::make_unique<BorrowedSegments>(Grant::kRead));
    owners.back()->pay_from(account());
    for (std::uint32_t i = 0; i < 15; ++i)
      owners.back()->add(i, platform::create_sealed_memfd("test", kTiB), kTiB);
  };
  std::string text;
  EXPECT_EQ(test::error_of(
                [&] {
                  while (owners.size() < 9) add_owner();
                },
                &text),
            "OutOfMemory");
  EXPECT_NE(text.find("address space"), std::string::npos) << text;
  (void)platform::Mapping(platform::create_sealed_memfd("test", 8 * kTiB).get(), 8 * kTiB,
                          platform::Mapping::Access::kRead);
  owners.pop_back();
  owners.pop_back();
  add_owner();
}
#endif

#if !TENSORBUS_SANITIZED  // whose allocator a child that is forked just then waits for
// In a process that has not looked at its limits yet, as each test of ctest is: the child is forked
// while another thread looks for the first time.
TEST_F(Peers, can_be_counted_by_a_child_that_was_forked_at_any_moment) {
  for (int round = 0; round < 200; ++round) {
    test::Child parent([&] {
      const PeerAccount one = account();
      std::atomic<bool> looks{false};
      std::thread other([&] {
        looks = true;
        (void)one.take({.mappings = 1});
      });
      while (!looks) {
      }
      const auto until = Clock::now() + std::chrono::microseconds(2 * (round % 50));
      while (Clock::now() < until) {
      }
      test::Child child([&] {
        ::alarm(10);  // it would wait for ever
        const auto own = std::make_shared<PeerBudget>();
        (void)account_of(*own).take({.mappings = 1});
        return true;
      });
      const bool done = child.wait() == "exit 0";
      other.join();
      return done;
    });
    ASSERT_EQ(parent.wait(), "exit 0") << round;
  }
}
#endif

TEST_F(Peers, are_charged_for_a_mapping_until_nobody_has_it) {
  const PeerAccount one = account();
  const std::size_t bytes = platform::page_bytes();
  BorrowedSegments segments(Grant::kRead);
  segments.pay_from(one);
  segments.add(0, platform::create_sealed_memfd("test", bytes), bytes);
  BorrowedSegments::Ref held = segments.find(0);
  std::vector<PeerCharge> rest;
  EXPECT_EQ(test::error_of([&] {
              while (true) rest.push_back(one.take({.mappings = 1}));
            }),
            "OutOfMemory");
  segments.retire(0);
  EXPECT_NE(why(one, {.mappings = 1}), "");
  held.reset();
  (void)one.take({.mappings = 1});
}

}  // namespace
}  // namespace tensorbus::memory
