#include "tensorbus/platform/faults/bus_fault.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/mapping.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tests/unit/platform/signal_test_support.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::platform {
namespace {

using test::count;
using test::End;
using test::say;
using Access = Mapping::Access;

constexpr std::string_view kBusError = "signal 7";
static_assert(SIGBUS == 7);

template <typename Body>
End run_until_sigbus(Body&& body) {
  return test::run_in_child(SIGBUS, std::forward<Body>(body));
}

// Four pages of a file, all bytes 7, that can be cut short.
class FilePages {
 public:
  explicit FilePages(Access access = Access::kRead)
      : fd_(::open((folder_ / "data").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    const std::string content(4 * page_bytes(), '\7');
    if (::write(fd_.get(), content.data(), content.size()) < 0) std::abort();
    mapping_ = Mapping(fd_.get(), content.size(), access);
    keep_in_child(fd_.get());
  }
  std::span<std::byte> memory() const { return {mapping_.data(), mapping_.size()}; }
  volatile std::byte& at(std::size_t page, std::size_t byte = 0) const {
    // Through a volatile pointer: the compiler is not to know what it points to.
    std::byte* volatile address = mapping_.data() + page * page_bytes() + byte;
    return *address;
  }
  int descriptor() const { return fd_.get(); }
  void resize(std::size_t pages) const {
    if (::ftruncate(fd_.get(), static_cast<off_t>(pages * page_bytes())) != 0) std::abort();
  }

 private:
  test::TemporaryDirectory folder_;
  Fd fd_;
  Mapping mapping_;
};

void expect(bool condition, int code) {
  if (!condition) ::_exit(code);
}

constexpr std::byte kZero{0};
constexpr std::byte kSeven{7};

TEST(BusFault, a_file_that_is_cut_short_reads_as_zeros_from_there_on_and_is_named_once) {
  const FilePages pages;
  const End end = run_until_sigbus([&] {
    const FileGuard guard(pages.memory(), "/data/a.bin", false);
    pages.resize(1);
    expect(!guard.broken() && guard.intact_bytes() == 4 * page_bytes(), 1);
    expect(pages.at(3, 5) == kZero, 2);
    expect(guard.broken() && guard.intact_bytes() == 3 * page_bytes(), 3);
    expect(pages.at(1) == kZero && guard.intact_bytes() == page_bytes(), 4);
    expect(pages.at(2) == kZero && guard.intact_bytes() == page_bytes(), 5);
    expect(pages.at(0) == kSeven, 6);
  });
  EXPECT_EQ(end.how, "exit 0");
  EXPECT_EQ(end.said,
            "tensorbus: the mapped file '/data/a.bin' was cut short, or cannot be read or written: "
            "from byte " +
                std::to_string(3 * page_bytes()) +
                " of the mapping on, this process reads zeros now. Its check() and flush() raise "
                "the error. With TENSORBUS_BUS_GUARD=0, SIGBUS ends the process instead.\n");
}

TEST(BusFault, a_file_is_named_once_however_often_it_is_mapped_until_it_is_opened_anew) {
  const FilePages pages;
  const FilePages same;
  const End end = run_until_sigbus([&] {
    const auto touch = [&](const FilePages& mapped, bool anew) {
      const FileGuard guard(mapped.memory(), "/data/a.bin", false,
                            FileGuard::identify(pages.descriptor(), anew));
      mapped.resize(1);
      expect(mapped.at(3) == kZero && guard.broken(), 1);
    };
    touch(pages, true);
    touch(same, false);
    say(" opened anew: ");
    const FilePages again;
    touch(again, true);
  });
  EXPECT_EQ(end.how, "exit 0");
  EXPECT_EQ(count(end.said, "was cut short"), 2U) << end.said;
  EXPECT_EQ(count(end.said.substr(end.said.find("anew")), "was cut short"), 1U) << end.said;
}

TEST(BusFault, what_was_replaced_can_be_written_where_the_mapping_can) {
  for (const Access access : {Access::kReadWrite, Access::kCopyOnWrite}) {
    const FilePages pages(access);
    const End end = run_until_sigbus([&] {
      const FileGuard guard(pages.memory(), "f", true);
      pages.at(2) = std::byte{1};
      pages.resize(1);
      pages.at(3, 9) = std::byte{4};
      expect(pages.at(3, 9) == std::byte{4}, 1);
      expect(pages.at(2) == kZero, 2);
      expect(pages.at(3, 9) == std::byte{4}, 3);  // was not replaced again
    });
    EXPECT_EQ(end.how, "exit 0") << end.said;
  }
}

TEST(BusFault, what_was_replaced_stays_so_when_the_file_grows_again) {
  const FilePages pages;
  const End end = run_until_sigbus([&] {
    const FileGuard guard(pages.memory(), "f", false);
    pages.resize(2);
    expect(pages.at(2) == kZero, 1);
    pages.resize(4);
    expect(guard.intact_bytes() == 2 * page_bytes(), 2);
  });
  EXPECT_EQ(end.how, "exit 0") << end.said;
}

TEST(BusFault, leaves_errno_alone_and_needs_no_stderr) {
  const FilePages pages;
  const End end = run_until_sigbus([&] {
    const FileGuard guard(pages.memory(), "f", false);
    pages.resize(1);
    ::close(STDERR_FILENO);
    errno = 1234;
    expect(pages.at(1) == kZero && errno == 1234, 1);
  });
  EXPECT_EQ(end.how, "exit 0");
}

TEST(BusFault, a_system_call_gets_an_error_and_the_guard_hears_nothing) {
  const FilePages pages;
  const End end = run_until_sigbus([&] {
    const FileGuard guard(pages.memory(), "f", false);
    pages.resize(1);
    expect(::write(STDERR_FILENO, &pages.memory()[page_bytes()], 1) < 0 && errno == EFAULT, 1);
    expect(!guard.broken(), 2);
  });
  EXPECT_EQ(end.how, "exit 0");
  EXPECT_EQ(end.said, "");
}

TEST(BusFault, a_guard_that_is_gone_and_memory_of_others_are_none_of_its_business) {
  const FilePages pages;
  const FilePages others;
  for (const bool gone : {true, false}) {
    const End end = run_until_sigbus([&] {
      std::optional<FileGuard> guard(std::in_place, pages.memory(), "f", false);
      const FilePages& touched = gone ? pages : others;
      if (gone) guard.reset();
      touched.resize(1);
      expect(touched.at(1) == kZero, 1);
    });
    EXPECT_EQ(end.how, kBusError);
    EXPECT_EQ(end.said, "");
    pages.resize(4);
  }
}

TEST(BusFault, of_several_guards_the_right_one_breaks) {
  const FilePages one;
  const FilePages two;
  const End end = run_until_sigbus([&] {
    const FileGuard first(one.memory(), "first", false);
    const FileGuard second(two.memory(), "second", false);
    one.resize(1);
    expect(one.at(2) == kZero && two.at(2) == kSeven, 1);
    expect(first.broken() && !second.broken(), 2);
  });
  EXPECT_EQ(end.how, "exit 0");
  EXPECT_EQ(count(end.said, "'first'"), 1);
  EXPECT_EQ(count(end.said, "'second'"), 0);
}

TEST(BusFault, can_be_turned_off) {
  const FilePages pages;
  const End end = run_until_sigbus([&] {
    ::setenv("TENSORBUS_BUS_GUARD", "0", 1);
    const FileGuard guard(pages.memory(), "f", false);
    struct sigaction now{};
    ::sigaction(SIGBUS, nullptr, &now);
    expect(now.sa_handler == SIG_DFL, 1);
    pages.resize(1);
    expect(pages.at(1) == kZero, 2);
  });
  EXPECT_EQ(end.how, kBusError);
  EXPECT_EQ(end.said, "");
}

TEST(BusFault, a_fault_that_is_not_ours_goes_to_the_handler_it_found_and_ours_does_not) {
  const FilePages guarded;
  const FilePages others;
  for (const bool ours : {true, false}) {
    const End end = run_until_sigbus([&] {
      test::handle(SIGBUS, [](int signal, siginfo_t* info, void* context) {
        say("previous");
        ::_exit(signal == SIGBUS && info->si_code == BUS_ADRERR && context != nullptr ? 7 : 8);
      });
      const FileGuard guard(guarded.memory(), "f", false);
      const FilePages& touched = ours ? guarded : others;
      touched.resize(1);
      expect(touched.at(1) == kZero, 1);
    });
    EXPECT_EQ(end.how, ours ? "exit 0" : "exit 7");
    EXPECT_EQ(count(end.said, "previous"), ours ? 0 : 1);
  }
}

TEST(BusFault, a_signal_that_was_sent_is_passed_on_whatever_its_address) {
  const FilePages pages;
  const End end = run_until_sigbus([&] {
    const FileGuard guard(pages.memory(), "f", false);
    ::raise(SIGBUS);
  });
  EXPECT_EQ(end.how, kBusError);
  EXPECT_EQ(end.said, "");
}

struct sigaction sigbus_action;

TEST(BusFault, a_handler_that_came_later_is_first_and_may_pass_on) {
  const FilePages pages;
  const End end = run_until_sigbus([&] {
    const FileGuard guard(pages.memory(), "f", false);
    test::handle(
        SIGBUS,
        [](int signal, siginfo_t* info, void* context) {
          say("application. ");
          sigbus_action.sa_sigaction(signal, info, context);
        },
        0, &sigbus_action);
    pages.resize(1);
    expect(pages.at(1) == kZero, 1);
  });
  EXPECT_EQ(end.how, "exit 0");
  EXPECT_EQ(count(end.said, "application. tensorbus: "), 1);
}

TEST(BusFault, threads_that_meet_the_same_pages_all_go_on) {
  const FilePages pages(Access::kReadWrite);
  const End end = run_until_sigbus([&] {
    const FileGuard guard(pages.memory(), "f", true);
    for (int round = 0; round < 200; ++round) {
      const FilePages own(Access::kReadWrite);
      const FileGuard its_guard(own.memory(), "own", true);
      own.resize(0);
      std::atomic<bool> go{false};
      {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < 4; ++i)
          threads.emplace_back([&, i] {
            while (!go.load()) ::sched_yield();
            for (std::size_t page = 4; page-- > 0;) own.at(page, i) = std::byte{9};
          });
        go.store(true);
      }
      for (std::size_t i = 0; i < 4; ++i)
        for (std::size_t page = 0; page < 4; ++page) expect(own.at(page, i) == std::byte{9}, 1);
    }
    expect(!guard.broken(), 2);
  });
  EXPECT_EQ(end.how, "exit 0") << end.said;
  EXPECT_EQ(count(end.said, "'own'"), 200);
}

TEST(BusFault, is_mended_from_an_alternate_stack) {
  const FilePages pages;
  const End end = run_until_sigbus([&] {
    const FileGuard guard(pages.memory(), "f", false);
    pages.resize(1);
    std::jthread thread([&] {
      static std::vector<char> memory(test::smallest_signal_stack());
      stack_t stack{};
      stack.ss_sp = memory.data();
      stack.ss_size = memory.size();
      stack_t before{};
      expect(::sigaltstack(&stack, &before) == 0, 1);
      expect(pages.at(1) == kZero, 2);
      expect(::sigaltstack(&before, nullptr) == 0, 3);  // a sanitizer frees its own
    });
  });
  EXPECT_EQ(end.how, "exit 0");
}

TEST(BusFault, a_forked_child_is_guarded_and_leaves_the_parent_as_it_was) {
  const FilePages pages;
  const End end = run_until_sigbus([&] {
    const FileGuard guard(pages.memory(), "f", false);
    test::Child grandchild([&] {
      pages.resize(1);
      return pages.at(1) == kZero && guard.broken();
    });
    expect(grandchild.wait() == "exit 0", 1);
    expect(!guard.broken(), 2);
    expect(pages.at(1) == kZero && guard.broken(), 3);
  });
  EXPECT_EQ(end.how, "exit 0");
  EXPECT_EQ(count(end.said, "tensorbus: "), 2);
}

TEST(BusFault, a_child_does_not_inherit_a_lock_that_another_thread_held) {
  const FilePages pages;
  const FilePages others;
  const End end = run_until_sigbus([&] {
    const FileGuard guard(pages.memory(), "f", false);
    pages.resize(1);
    std::jthread busy([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) const FileGuard made(others.memory(), "busy", false);
    });
    for (int round = 0; round < 100; ++round) {
      test::Child grandchild([&] { return pages.at(1) == kZero; });
      expect(grandchild.wait() == "exit 0", 1);
    }
  });
  EXPECT_EQ(end.how, "exit 0");
}

}  // namespace
}  // namespace tensorbus::platform
