// Limits of the system, met for real: a process sets one on itself, is told by name which it met,
// and goes on when there is room again. Never a signal.

#include <sched.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>

#include "support.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;
using test::Child;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr int kSkipped = 77;
// As RLIMIT_NOFILE: the descriptors that are open stay, and there are no new ones, also in place of
// one that the event thread closes just now.
constexpr rlim_t kNoDescriptor = STDERR_FILENO + 1;

// Does `call` throw this code, with all these words?
bool refuses(const std::function<void()>& call, Code code, const std::vector<std::string>& words) {
  try {
    call();
  } catch (const Error& error) {
    const std::string text = error.what();
    bool all = error.code() == code;
    for (const std::string& word : words) all &= text.find(word) != std::string::npos;
    if (!all) std::fprintf(stderr, "unexpected: %s\n", error.what());
    return all;
  }
  std::fprintf(stderr, "nothing thrown; expected %s\n", words.front().c_str());
  return false;
}

// Sets a limit for as long as it lives.
class Limited {
 public:
  Limited(decltype(RLIMIT_NOFILE) which, std::size_t value) : which_(which) {
    ::getrlimit(which_, &before_);
    const rlimit tight{std::min<rlim_t>(value, before_.rlim_max), before_.rlim_max};
    if (::setrlimit(which_, &tight) < 0) std::abort();
  }
  ~Limited() { ::setrlimit(which_, &before_); }
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;

 private:
  decltype(RLIMIT_NOFILE) which_;
  rlimit before_{};
};

// Can this participant send to itself?
bool works(const bus::ParticipantRef& participant) {
  bus::Publisher publisher("works", {}, participant);
  bus::Subscriber subscriber("works", {}, participant);
  if (publisher.wait_for_subscribers(1, kLong) != Outcome::kDone) return false;
  publish_pattern(publisher, 7);
  return next_seeds(subscriber, 1) == Seeds{7};
}

class Limits : public ::testing::Test {
 protected:
  // The body runs in a child, may set limits there, and returns whether all was well.
  static void in_child(const std::function<bool()>& body) {
    Child child(body);
    EXPECT_EQ(child.wait(), "exit 0");
  }
  // In a child that has mounts of its own, or, where the sandbox forbids that, not at all.
  static void with_own_mounts(const std::function<bool()>& body) {
    Child child([&] {
      const int own = ::geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER;
      const uid_t user = ::geteuid();
      if (::unshare(own) < 0) ::_exit(kSkipped);
      if (user != 0)
        std::ofstream("/proc/self/uid_map")
            << std::to_string(user) + " " + std::to_string(user) + " 1";
      if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0) ::_exit(kSkipped);
      return body();
    });
    const std::string end = child.wait();
    if (end == "exit " + std::to_string(kSkipped)) GTEST_SKIP() << "no mount namespaces here";
    EXPECT_EQ(end, "exit 0");
  }

  const FreshDomain domain;
};

TEST_F(Limits, joining_names_the_descriptors_it_lacks) {
  in_child([&] {
    const std::size_t first = first_free_descriptor();
    for (std::size_t extra = 0;; ++extra) {
      {
        const Limited limited(RLIMIT_NOFILE, first + extra);
        const std::string words = "RLIMIT_NOFILE is " + std::to_string(first + extra);
        if (extra > 4) {  // without an inotify instance it works, too
          try {
            (void)domain.join();
            break;
          } catch (const Error&) {
          }
        }
        if (!refuses([&] { (void)domain.join(); }, Code::kOutOfMemory, {words, "raise it"}))
          return false;
      }
      if (first_free_descriptor() != first || !domain.files().empty()) return false;
    }
    return works(domain.join());
  });
}

TEST_F(Limits, a_publisher_names_the_descriptors_it_lacks_and_leaves_nothing_behind) {
  in_child([&] {
    const bus::ParticipantRef here = domain.join();
    const auto files = domain.files();
    {
      const Limited limited(RLIMIT_NOFILE, kNoDescriptor);
      const auto make = [&] { const bus::Publisher publisher("topic", {}, here); };
      if (!refuses(make, Code::kOutOfMemory, {"RLIMIT_NOFILE is"})) return false;
      const auto join = [&] { (void)domain.join(); };
      if (!refuses(join, Code::kOutOfMemory, {"RLIMIT_NOFILE is"})) return false;
    }
    return domain.files() == files && works(here);
  });
}

TEST_F(Limits, a_participant_without_descriptors_can_still_go) {
  in_child([&] {
    std::optional<bus::ParticipantRef> here = domain.join();
    std::optional<bus::Publisher> publisher(std::in_place, "topic", PublisherOptions{}, *here);
    const Limited limited(RLIMIT_NOFILE, first_free_descriptor());
    publisher.reset();
    here.reset();
    return domain.files().empty();
  });
}

TEST_F(Limits, a_subscriber_without_descriptors_connects_when_it_has_some) {
  const bus::ParticipantRef here = domain.join();
  bus::Publisher publisher("topic", {.history = 3}, here);
  publish_patterns(publisher, 1, 3);
  Peer peer(domain);
  for (const char* extra : {"0", "1", "2", "3", "4", "5", "6"}) {
    ASSERT_EQ(peer.ask(std::string("limit descriptors extra=") + extra), "ok");
    ASSERT_EQ(peer.ask("subscriber topic"), "ok");
    (void)publisher.wait_for_subscribers(1, 30ms);
    ASSERT_EQ(peer.ask("limit descriptors off"), "ok");
    EXPECT_EQ(peer.ask("receive 3"), "ok 1 2 3") << extra << " more descriptors";
    ASSERT_EQ(peer.ask("close_subscribers"), "ok");
  }
}

TEST_F(Limits, whoever_connects_to_a_publisher_without_descriptors_waits) {
  Peer peer(domain);
  ASSERT_EQ(peer.ask("publisher topic"), "ok");
  const bus::ParticipantRef here = domain.join();
  for (const char* extra : {"0", "1", "2", "3", "4", "5", "6"}) {
    ASSERT_EQ(peer.ask(std::string("limit descriptors extra=") + extra), "ok");
    bus::Subscriber subscriber("topic", {}, here);
    (void)subscriber.wait_for_publishers(1, 50ms);
    const std::string refusal = subscriber.stats().last_refusal;
    if (!refusal.empty()) {
      EXPECT_NE(refusal.find("RLIMIT_NOFILE is"), std::string::npos) << refusal;
    }
    ASSERT_EQ(peer.ask("limit descriptors off"), "ok");
    ASSERT_EQ(subscriber.wait_for_publishers(1, kLong), Outcome::kDone) << extra;
    ASSERT_EQ(peer.ask("publish 1"), "ok");
    EXPECT_EQ(next_seeds(subscriber, 1).size(), 1U) << extra << " more descriptors";
  }
}

TEST_F(Limits, a_sample_whose_segment_cannot_be_passed_is_counted_and_the_next_one_arrives) {
  in_child([&] {
    const bus::ParticipantRef here = domain.join();
    bus::Publisher publisher("topic", {}, here);
    bus::Subscriber subscriber("topic", {}, here);
    if (publisher.wait_for_subscribers(1, kLong) != Outcome::kDone) return false;
    bus::Loan loan = pattern_loan(publisher, 1);
    {
      const Limited limited(RLIMIT_NOFILE, kNoDescriptor);
      if (publisher.publish(std::move(loan)).outcome != Outcome::kDone) return false;
    }
    if (publisher.stats().dropped_unsent != 1) return false;
    publish_pattern(publisher, 2);
    return next_seeds(subscriber, 1) == Seeds{2} && subscriber.stats().missed == 1;
  });
}

TEST_F(Limits, a_reliable_publisher_throws_instead_and_drops_nothing) {
  in_child([&] {
    const bus::ParticipantRef here = domain.join();
    bus::Publisher publisher("topic", {.reliable = true}, here);
    bus::Subscriber subscriber("topic", {}, here);
    if (publisher.wait_for_subscribers(1, kLong) != Outcome::kDone) return false;
    bus::Loan loan = pattern_loan(publisher, 1);
    {
      const Limited limited(RLIMIT_NOFILE, kNoDescriptor);
      if (!refuses([&] { publisher.publish(std::move(loan)); }, Code::kOutOfMemory,
                   {"RLIMIT_NOFILE is"}))
        return false;
    }
    if (publisher.publish(std::move(loan)).outcome != Outcome::kDone) return false;
    return next_seeds(subscriber, 1) == Seeds{1} && publisher.stats().dropped_unsent == 0;
  });
}

TEST_F(Limits, a_borrower_without_descriptors_gets_its_samples_when_it_has_one) {
  const bus::ParticipantRef here = domain.join();
  bus::Publisher publisher("topic", {}, here);
  Peer peer(domain);
  ASSERT_EQ(peer.ask("subscriber topic"), "ok");
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  ASSERT_EQ(peer.ask("await_publishers 1"), "ok");
  ASSERT_EQ(peer.ask("limit descriptors extra=0"), "ok");
  publish_patterns(publisher, 1, 2);
  std::this_thread::sleep_for(50ms);  // it meets the limit, again and again
  ASSERT_EQ(peer.ask("limit descriptors off"), "ok");
  EXPECT_EQ(peer.ask("receive 2"), "ok 1 2");
  EXPECT_EQ(peer.ask("refusals"), "ok 1 ");
}

TEST_F(Limits, a_borrower_without_address_space_gets_its_samples_when_it_has_some) {
  if (kSanitized) GTEST_SKIP() << "RLIMIT_AS is not for sanitizers";
  const bus::ParticipantRef here = domain.join();
  bus::Publisher publisher("topic", {}, here);
  Peer peer(domain);
  ASSERT_EQ(peer.ask("subscriber topic"), "ok");
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  ASSERT_EQ(peer.ask("limit address_space extra=" + std::to_string(16 * kMiB)), "ok");
  publish_patterns(publisher, 1, 2);  // in a segment of 64 MiB
  std::this_thread::sleep_for(50ms);
  ASSERT_EQ(peer.ask("limit address_space off"), "ok");
  EXPECT_EQ(peer.ask("receive 2"), "ok 1 2");
  EXPECT_EQ(peer.ask("refusals"), "ok 1 ");
}

TEST_F(Limits, joining_names_the_address_space_it_lacks) {
  if (kSanitized) GTEST_SKIP() << "RLIMIT_AS is not for sanitizers";
  in_child([&] {
    for (std::size_t extra = 0; extra < 20 * kMiB; extra += kMiB / 2) {
      const Limited limited(RLIMIT_AS, mapped_bytes() + extra);
      try {
        (void)domain.join();
      } catch (const Error& error) {
        const std::string text = error.what();
        if (error.code() != Code::kOutOfMemory || text.find("RLIMIT_AS") == std::string::npos)
          return false;
      }
    }
    return domain.files().empty() && works(domain.join());
  });
}

TEST_F(Limits, a_loan_names_the_address_space_it_lacks) {
  if (kSanitized) GTEST_SKIP() << "RLIMIT_AS is not for sanitizers";
  in_child([&] {
    const bus::ParticipantRef here = domain.join();
    bus::Publisher publisher("topic", {}, here);
    {
      const std::size_t limit = mapped_bytes() + 32 * kMiB;
      const Limited limited(RLIMIT_AS, limit);
      const auto loan = [&] { (void)publisher.loan<std::uint8_t>({40 * kMiB}); };
      if (!refuses(loan, Code::kOutOfMemory,
                   {"RLIMIT_AS is " + std::to_string(limit), "vm.max_map_count is", "raise"}))
        return false;
    }
    return publisher.loan<std::uint8_t>({40 * kMiB}).as<std::uint8_t>().size() == 40 * kMiB &&
           works(here);
  });
}

TEST_F(Limits, a_private_sample_names_the_mappings_it_lacks_and_is_there_when_there_are_some) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need mappings, too";
  in_child([&] {
    const bus::ParticipantRef here = domain.join();
    bus::Publisher publisher("topic", {}, here);
    bus::Subscriber subscriber("topic", {.access = Access::kPrivate}, here);
    if (publisher.wait_for_subscribers(1, kLong) != Outcome::kDone) return false;
    publish_pattern(publisher, 1);
    if (next_seeds(subscriber, 1) != Seeds{1}) return false;
    publish_pattern(publisher, 2);
    std::size_t most = 0;
    std::ifstream("/proc/sys/vm/max_map_count") >> most;
    if (most > 1'000'000) ::_exit(0);  // it would take too long
    // Two neighbours of different kinds are two mappings.
    std::vector<void*> pages;
    for (pages.reserve(most); pages.size() < most;) {
      const int protection = pages.size() % 2 == 0 ? PROT_READ : PROT_NONE;
      void* page =
          ::mmap(nullptr, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (page == MAP_FAILED) break;
      pages.push_back(page);
    }
    const bool refused =
        refuses([&] { (void)subscriber.try_receive(); }, Code::kOutOfMemory,
                {"vm.max_map_count is " + std::to_string(most), "raise the limit"});
    for (void* page : pages) ::munmap(page, 4096);
    return refused && next_seeds(subscriber, 1) == Seeds{2};
  });
}

TEST_F(Limits, a_file_size_limit_is_named_and_never_a_signal) {
  in_child([&] {
    for (const std::size_t most : {std::size_t{0}, std::size_t{4096}, kMiB / 2}) {
      const Limited limited(RLIMIT_FSIZE, most);
      if (!refuses([&] { (void)domain.join(); }, Code::kOutOfMemory,
                   {"RLIMIT_FSIZE", std::to_string(most), "raise it"}))
        return false;
    }
    const bus::ParticipantRef here = domain.join();
    bus::Publisher publisher("topic", {}, here);
    {
      const Limited limited(RLIMIT_FSIZE, 4096);
      bus::Subscriber subscriber("topic", {}, here);
      if (!eventually([&] { return subscriber.stats().refused != 0; })) return false;
      if (subscriber.stats().last_refusal.find("RLIMIT_FSIZE") == std::string::npos) return false;
    }
    return works(here);
  });
}

TEST_F(Limits, a_thread_that_cannot_start_names_the_limit) {
  in_child([&] {
    if (::geteuid() == 0) {  // root has no such limit
      if (::chown(domain.path().c_str(), 65534, 65534) < 0 || ::setresuid(65534, 65534, 65534) < 0)
        ::_exit(0);
      ::prctl(PR_SET_DUMPABLE, 1);  // /proc/self is ours again
    }
    {
      const Limited limited(RLIMIT_NPROC, 0);
      if (!refuses([&] { (void)domain.join(); }, Code::kOutOfMemory,
                   {"cannot start the thread", "RLIMIT_NPROC is 0", "raise the limit"}))
        return false;
    }
    return domain.files().empty() && works(domain.join());
  });
}

TEST_F(Limits, a_directory_that_may_not_be_written_to_says_what_to_do) {
  in_child([&] {
    if (::geteuid() == 0) {
      if (::chown(domain.path().c_str(), 65534, 65534) < 0 || ::setresuid(65534, 65534, 65534) < 0)
        ::_exit(0);
      ::prctl(PR_SET_DUMPABLE, 1);
    }
    std::optional<bus::ParticipantRef> here = domain.join();
    ::chmod(domain.path().c_str(), 0500);
    const auto make = [&] { const bus::Publisher publisher("topic", {}, *here); };
    const auto join = [&] { (void)domain.join(); };
    if (!refuses(make, Code::kPermission, {"chmod 700", "TENSORBUS_DOMAIN"})) return false;
    if (!refuses(join, Code::kPermission, {"chmod 700", "TENSORBUS_DOMAIN"})) return false;
    ::chmod(domain.path().c_str(), 0700);
    return works(*here);
  });
}

TEST_F(Limits, a_read_only_directory_says_so) {
  with_own_mounts([&] {
    const char* path = domain.path().c_str();
    if (::mount(path, path, nullptr, MS_BIND, nullptr) < 0) ::_exit(kSkipped);
    if (::mount(path, path, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) < 0)
      ::_exit(kSkipped);
    if (!refuses([&] { (void)domain.join(); }, Code::kPermission,
                 {"read-only", "TENSORBUS_DOMAIN"}))
      return false;
    if (::mount(path, path, nullptr, MS_BIND | MS_REMOUNT, nullptr) < 0) return false;
    const bus::ParticipantRef here = domain.join();
    if (!works(here)) return false;
    if (::mount(path, path, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) < 0) return false;
    const auto make = [&] { const bus::Publisher publisher("topic", {}, here); };
    return refuses(make, Code::kPermission, {"read-only", "TENSORBUS_DOMAIN"});
  });
}

TEST_F(Limits, a_full_directory_says_so) {
  with_own_mounts([&] {
    const char* path = domain.path().c_str();
    const auto inodes = [&](int count, unsigned long flags) {
      const std::string options = "mode=700,nr_inodes=" + std::to_string(count);
      return ::mount("tmpfs", path, "tmpfs", flags, options.c_str()) == 0;
    };
    if (!inodes(1, 0)) ::_exit(kSkipped);  // the directory itself
    if (!refuses([&] { (void)domain.join(); }, Code::kOutOfMemory, {"full", "TENSORBUS_DOMAIN"}))
      return false;
    if (!inodes(2, MS_REMOUNT)) return false;
    const bus::ParticipantRef here = domain.join();
    const auto make = [&] { const bus::Publisher publisher("topic", {}, here); };
    if (!refuses(make, Code::kOutOfMemory, {"full", "make room"})) return false;
    return inodes(10, MS_REMOUNT) && works(here);
  });
}

TEST_F(Limits, a_full_cgroup_is_named) {
  const std::string group = "/sys/fs/cgroup/memory/tensorbus-test-" + std::to_string(::getpid());
  if (::mkdir(group.c_str(), 0700) < 0) GTEST_SKIP() << "no memory cgroup can be made here";
  {
    Child child([&] {
      std::ofstream(group + "/memory.limit_in_bytes") << 64 * kMiB << std::flush;
      std::ofstream procs(group + "/cgroup.procs");
      procs << ::getpid() << std::flush;
      if (!procs) ::_exit(kSkipped);
      const bus::ParticipantRef here = domain.join();
      bus::Publisher publisher("topic", {}, here);
      const auto loan = [&] { (void)publisher.loan<std::uint8_t>({100 * kMiB}); };
      return refuses(loan, Code::kOutOfMemory, {"memory.limit_in_bytes of cgroup", "leaves"}) &&
             works(here);
    });
    const std::string end = child.wait();
    ::rmdir(group.c_str());
    if (end == "exit " + std::to_string(kSkipped)) GTEST_SKIP() << "the cgroup takes no process";
    EXPECT_EQ(end, "exit 0");
  }
}

TEST_F(Limits, without_an_inotify_instance_publishers_are_found_all_the_same) {
  in_child([&] {
    std::vector<int> instances;
    for (int fd = 0; (fd = ::inotify_init1(IN_CLOEXEC)) >= 0;) instances.push_back(fd);
    const bus::ParticipantRef here = domain.join();
    const bus::ParticipantRef there = domain.join();
    for (const int fd : instances) ::close(fd);
    bus::Subscriber subscriber("topic", {}, here);
    (void)subscriber.wait_for_publishers(1, 20ms);
    bus::Publisher publisher("topic", {}, there);
    if (publisher.wait_for_subscribers(1, kLong) != Outcome::kDone) return false;
    publish_pattern(publisher, 1);
    return next_seeds(subscriber, 1) == Seeds{1};
  });
}

}  // namespace
}  // namespace tensorbus
