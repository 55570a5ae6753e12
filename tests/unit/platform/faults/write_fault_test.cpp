#include "tensorbus/platform/faults/write_fault.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <span>
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

constexpr std::string_view kSegmentationFault = "signal 11";
static_assert(SIGSEGV == 11);

using test::count;
using test::End;
using test::say;

template <typename Body>
End run_until_segv(Body&& body) {
  return test::run_in_child(SIGSEGV, std::forward<Body>(body));
}

std::string topic_line(const std::string& topic) {
  return "received from topic '" + topic + "' with";
}

void write_to(const std::byte* address) {
  // Through a volatile pointer: the compiler is not to know what it points to.
  std::byte* volatile target = const_cast<std::byte*>(address);
  *const_cast<volatile std::byte*>(target) = std::byte{1};
}

const std::byte* nothing_mapped() { return reinterpret_cast<const std::byte*>(8); }

// Pages as a subscriber maps them.
struct ReadOnlyPages {
  explicit ReadOnlyPages(std::size_t pages = 1)
      : fd(create_sealed_memfd("test", pages * page_bytes())),
        mapping(fd.get(), pages * page_bytes(), Mapping::Access::kRead) {}
  std::span<const std::byte> page(std::size_t i = 0) const {
    return {mapping.data() + i * page_bytes(), page_bytes()};
  }
  Fd fd;
  Mapping mapping;
};

void handle(void (*handler)(int, siginfo_t*, void*), int flags = 0,
            struct sigaction* before = nullptr) {
  test::handle(SIGSEGV, handler, flags, before);
}

TEST(WriteFault, names_the_topic_and_the_ways_out_and_ends_as_without_us) {
  const ReadOnlyPages pages;
  const End end = run_until_segv([&] {
    const ReadOnlyNote note(pages.page(), "camera/image");
    write_to(pages.page().data());
  });
  EXPECT_EQ(end.how, kSegmentationFault);
  EXPECT_EQ(end.said,
            "tensorbus: a write to a read-only tensor that was received from topic "
            "'camera/image' with access=\"read\" (or pin=True). Write to a copy (tensor.clone(), "
            "sample.copy()), or receive it with access=\"copy-on-write\", the default (writes are "
            "private to this process), or access=\"shared\" (all processes see writes). "
            "TENSORBUS_FAULT_MESSAGE=0 turns this message off.\n");
}

TEST(WriteFault, of_a_file_it_names_the_path_and_the_modes_that_can_be_written) {
  const ReadOnlyPages pages;
  const End end = run_until_segv([&] {
    const ReadOnlyNote note(pages.page(), "/data/a.npy", ReadOnlyNote::From::kFile);
    write_to(pages.page().data());
  });
  EXPECT_EQ(end.how, kSegmentationFault);
  EXPECT_EQ(end.said,
            "tensorbus: a write to a read-only tensor that was mapped from file '/data/a.npy' with "
            "mode=\"r\". Write to a copy (tensor.clone()), or map the file with mode=\"r+\" "
            "(writes reach the file) or mode=\"c\" (writes are private to this process). "
            "TENSORBUS_FAULT_MESSAGE=0 turns this message off.\n");
}

TEST(WriteFault, knows_the_first_and_the_last_byte_of_its_memory_and_none_beside_them) {
  const ReadOnlyPages pages;
  const auto noted = pages.page().subspan(64, 128);
  const auto said_at = [&](std::size_t offset) {
    const End end = run_until_segv([&] {
      const ReadOnlyNote note(noted, "t");
      write_to(pages.page().data() + offset);
    });
    EXPECT_EQ(end.how, kSegmentationFault);
    return end.said;
  };
  EXPECT_EQ(said_at(63), "");
  EXPECT_NE(said_at(64), "");
  EXPECT_NE(said_at(191), "");
  EXPECT_EQ(said_at(192), "");
}

TEST(WriteFault, a_fault_elsewhere_is_none_of_its_business) {
  const ReadOnlyPages pages(2);
  for (const std::byte* address : {nothing_mapped(), pages.page(1).data()}) {
    const End end = run_until_segv([&] {
      const ReadOnlyNote note(pages.page(0), "camera/image");
      write_to(address);
    });
    EXPECT_EQ(end.how, kSegmentationFault);
    EXPECT_EQ(end.said, "");
  }
}

TEST(WriteFault, memory_that_is_not_there_is_not_read_only_memory) {
  const End end = run_until_segv([] {
    const ReadOnlyNote note({nothing_mapped(), 8}, "camera/image");
    write_to(nothing_mapped());
  });
  EXPECT_EQ(end.how, kSegmentationFault);
  EXPECT_EQ(end.said, "");
}

TEST(WriteFault, a_note_that_is_gone_says_nothing) {
  const ReadOnlyPages pages;
  const End end = run_until_segv([&] {
    {
      const ReadOnlyNote note(pages.page(), "camera/image");
    }
    write_to(pages.page().data());
  });
  EXPECT_EQ(end.how, kSegmentationFault);
  EXPECT_EQ(end.said, "");
}

TEST(WriteFault, an_empty_range_is_never_meant) {
  const ReadOnlyPages pages;
  const End end = run_until_segv([&] {
    const ReadOnlyNote here(pages.page().first(0), "camera/image");
    const ReadOnlyNote nowhere({}, "camera/image");
    write_to(pages.page().data());
  });
  EXPECT_EQ(end.how, kSegmentationFault);
  EXPECT_EQ(end.said, "");
}

TEST(WriteFault, of_several_notes_the_right_one_is_named_in_whatever_order_they_go) {
  const ReadOnlyPages pages(4);
  const std::vector<std::string> topics = {"zero", "one", "two", "three"};
  for (std::size_t gone = 0; gone < topics.size(); ++gone)
    for (std::size_t written = 0; written < topics.size(); ++written) {
      const End end = run_until_segv([&] {
        std::vector<std::optional<ReadOnlyNote>> notes(topics.size());
        for (std::size_t i = 0; i < topics.size(); ++i) notes[i].emplace(pages.page(i), topics[i]);
        notes[gone].reset();
        write_to(pages.page(written).data() + 5);
      });
      EXPECT_EQ(end.how, kSegmentationFault);
      EXPECT_EQ(count(end.said, topic_line(topics[written])), written == gone ? 0 : 1) << end.said;
    }
}

TEST(WriteFault, can_be_turned_off) {
  const ReadOnlyPages pages;
  const auto said_with = [&](const char* value) {
    const End end = run_until_segv([&] {
      ::setenv("TENSORBUS_FAULT_MESSAGE", value, 1);
      const ReadOnlyNote note(pages.page(), "camera/image");
      struct sigaction now{};
      ::sigaction(SIGSEGV, nullptr, &now);
      if ((now.sa_handler == SIG_DFL) != (std::string_view(value) == "0")) ::_exit(1);
      write_to(pages.page().data());
    });
    EXPECT_EQ(end.how, kSegmentationFault);
    return end.said;
  };
  EXPECT_EQ(said_with("0"), "");
  EXPECT_EQ(count(said_with("1"), topic_line("camera/image")), 1);
}

TEST(WriteFault, control_characters_and_broken_utf8_become_question_marks) {
  const ReadOnlyPages pages;
  const auto shown = [&](const std::string& topic) {
    return run_until_segv([&] {
             const ReadOnlyNote note(pages.page(), topic);
             write_to(pages.page().data());
           })
        .said;
  };
  const auto expect = [&](const std::string& topic, const std::string& as) {
    EXPECT_EQ(count(shown(topic), topic_line(as)), 1) << shown(topic);
  };
  expect(std::string("a\n\x1b[31m\0\x7f", 9), "a??[31m??");
  expect("caf\xc3\xa9/\xe6\xb8\xa9\xe5\xba\xa6/\xf0\x9f\x93\xb7",
         "caf\xc3\xa9/\xe6\xb8\xa9\xe5\xba\xa6/\xf0\x9f\x93\xb7");
  expect("\xc2\x9b", "??");            // C1: what some terminals take for an escape sequence
  expect("\xc0\xaf\xff", "???");       // overlong, and a byte that is never UTF-8
  expect("\xed\xa0\x80", "???");       // half of a surrogate pair
  expect("\xf4\x90\x80\x80", "????");  // above U+10FFFF
  expect("cut \xe6\xb8", "cut ??");    // ends within a character
}

TEST(WriteFault, of_no_topic_it_says_what_it_knows) {
  const ReadOnlyPages pages;
  const End end = run_until_segv([&] {
    const ReadOnlyNote note(pages.page(), "");
    write_to(pages.page().data());
  });
  EXPECT_EQ(count(end.said, "that was received with access=\"read\""), 1) << end.said;
}

TEST(WriteFault, a_long_topic_is_cut_between_characters) {
  const ReadOnlyPages pages;
  const auto shown = [&](const std::string& topic) {
    return run_until_segv([&] {
             const ReadOnlyNote note(pages.page(), topic);
             write_to(pages.page().data());
           })
        .said;
  };
  const std::string fits(200, 'x');
  EXPECT_EQ(count(shown(fits), topic_line(fits)), 1);
  EXPECT_EQ(count(shown(fits + "y"), topic_line(fits + "...")), 1);
  EXPECT_EQ(
      count(shown(std::string(199, 'x') + "\xc3\xa9"), topic_line(std::string(199, 'x') + "...")),
      1);
  EXPECT_EQ(count(shown(std::string(2048, '\n')), topic_line(std::string(200, '?') + "...")), 1);
}

// --- The handlers before and after ours ---

TEST(WriteFault, passes_every_fault_on_to_the_handler_it_found) {
  const ReadOnlyPages pages;
  for (const bool ours : {true, false}) {
    static const std::byte* expected;
    expected = ours ? pages.page().data() : nothing_mapped();
    const End end = run_until_segv([&] {
      handle([](int signal, siginfo_t* info, void* context) {
        say("previous");
        ::_exit(signal == SIGSEGV && info->si_addr == expected && context != nullptr ? 7 : 8);
      });
      const ReadOnlyNote note(pages.page(), "camera/image");
      write_to(expected);
    });
    EXPECT_EQ(end.how, "exit 7");
    EXPECT_EQ(count(end.said, topic_line("camera/image")), ours ? 1 : 0);
    EXPECT_TRUE(end.said.ends_with("previous"));
  }
}

TEST(WriteFault, passes_a_fault_on_to_a_handler_of_the_plain_kind) {
  const ReadOnlyPages pages;
  const End end = run_until_segv([&] {
    std::signal(SIGSEGV, [](int signal) { ::_exit(signal == SIGSEGV ? 7 : 8); });
    const ReadOnlyNote note(pages.page(), "camera/image");
    write_to(pages.page().data());
  });
  EXPECT_EQ(end.how, "exit 7");
  EXPECT_EQ(count(end.said, topic_line("camera/image")), 1);
}

TEST(WriteFault, a_fault_that_was_to_be_ignored_ends_the_process_as_the_kernel_would) {
  const ReadOnlyPages pages;
  const End end = run_until_segv([&] {
    std::signal(SIGSEGV, SIG_IGN);
    const ReadOnlyNote note(pages.page(), "camera/image");
    ::raise(SIGSEGV);  // this one can be ignored
    say("ignored. ");
    write_to(pages.page().data());
  });
  EXPECT_EQ(end.how, kSegmentationFault);
  EXPECT_EQ(count(end.said, "ignored. tensorbus: "), 1);
}

TEST(WriteFault, a_signal_that_was_sent_ends_the_process_too) {
  const ReadOnlyPages pages;
  const End end = run_until_segv([&] {
    const ReadOnlyNote note(pages.page(), "camera/image");
    ::raise(SIGSEGV);
  });
  EXPECT_EQ(end.how, kSegmentationFault);
  EXPECT_EQ(end.said, "");
}

sigjmp_buf back;

TEST(WriteFault, a_previous_handler_may_jump_out_and_every_fault_is_reported) {
  const ReadOnlyPages pages;
  const End end = run_until_segv([&] {
    handle([](int, siginfo_t*, void*) { siglongjmp(back, 1); });
    const ReadOnlyNote note(pages.page(), "camera/image");
    static int faults;  // static: a jump back may undo what a register held
    for (faults = 0; faults < 3; ++faults)
      if (sigsetjmp(back, 1) == 0) write_to(pages.page().data());
    const ReadOnlyNote another(pages.page(), "lidar");  // the lock was left free
  });
  EXPECT_EQ(end.how, "exit 0");
  EXPECT_EQ(count(end.said, topic_line("camera/image")), 3);
}

TEST(WriteFault, a_previous_handler_that_wants_to_be_interrupted_by_its_own_signal_is) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer blocks every signal in a handler, SA_NODEFER or not";
#endif
  const ReadOnlyPages pages;
  const End end = run_until_segv([&] {
    // As Python's faulthandler: restores what was before it and raises the signal at once.
    handle(
        [](int signal, siginfo_t*, void*) {
          std::signal(signal, SIG_DFL);
          say("traceback");
          ::raise(signal);
          ::_exit(8);  // never reached
        },
        SA_NODEFER);
    const ReadOnlyNote note(pages.page(), "camera/image");
    write_to(pages.page().data());
  });
  EXPECT_EQ(end.how, kSegmentationFault);
  EXPECT_EQ(count(end.said, topic_line("camera/image")), 1);
  EXPECT_TRUE(end.said.ends_with("traceback"));
}

TEST(WriteFault, a_previous_handler_that_wanted_one_signal_gets_one) {
  const ReadOnlyPages pages;
  const End end = run_until_segv([&] {
    handle([](int, siginfo_t*, void*) { say("once"); }, static_cast<int>(SA_RESETHAND));
    const ReadOnlyNote note(pages.page(), "camera/image");
    write_to(pages.page().data());
  });
  EXPECT_EQ(end.how, kSegmentationFault);
  EXPECT_EQ(count(end.said, "once"), 1);
}

TEST(WriteFault, a_handler_that_mends_the_memory_lets_the_program_go_on_with_its_errno) {
  const ReadOnlyPages pages;
  const End end = run_until_segv([&] {
    static std::span<const std::byte> memory;
    memory = pages.page();
    handle([](int, siginfo_t*, void*) {
      void* const at = const_cast<std::byte*>(memory.data());
      if (::mmap(at, memory.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                 -1, 0) != at)
        ::_exit(9);
    });
    const ReadOnlyNote note(memory, "camera/image");
    ::close(STDERR_FILENO);  // so that the message fails
    errno = 1234;
    write_to(memory.data());
    ::_exit(errno == 1234 && memory[0] == std::byte{1} ? 7 : 8);
  });
  EXPECT_EQ(end.how, "exit 7");
}

struct sigaction segv_action;

TEST(WriteFault, a_handler_that_came_later_and_passes_faults_on_to_ours_is_served) {
  const ReadOnlyPages pages;
  const End end = run_until_segv([&] {
    const ReadOnlyNote note(pages.page(), "camera/image");
    handle(
        [](int signal, siginfo_t* info, void* context) {
          say("application. ");
          segv_action.sa_sigaction(signal, info, context);
        },
        0, &segv_action);
    const ReadOnlyNote later(pages.page().first(1), "lidar");  // does not install it again
    write_to(pages.page().data() + 1);
  });
  EXPECT_EQ(end.how, kSegmentationFault);
  EXPECT_EQ(count(end.said, "application. tensorbus: "), 1);
  EXPECT_EQ(count(end.said, topic_line("camera/image")), 1);
}

// --- Threads and forks ---

TEST(WriteFault, is_reported_while_other_threads_make_and_drop_notes) {
  const ReadOnlyPages pages(9);
  const End end = run_until_segv([&] {
    const ReadOnlyNote note(pages.page(8), "camera/image");
    std::atomic<int> running{0};
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 8; ++i)
      threads.emplace_back([&, i](const std::stop_token& stop) {
        running.fetch_add(1);
        while (!stop.stop_requested()) {
          const ReadOnlyNote first(pages.page(i), "first");
          const ReadOnlyNote second(pages.page(i), "second");
        }
      });
    while (running.load() != 8) ::sched_yield();
    write_to(pages.page(8).data());
  });
  EXPECT_EQ(end.how, kSegmentationFault);
  EXPECT_EQ(count(end.said, topic_line("camera/image")), 1) << end.said;
}

TEST(WriteFault, threads_that_make_and_drop_notes_leave_the_list_whole) {
  const ReadOnlyPages pages;
  const End end = run_until_segv([&] {
    const ReadOnlyNote oldest(pages.page(), "oldest");
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
          for (int round = 0; round < 20'000; ++round) {
            std::optional<ReadOnlyNote> first(std::in_place, pages.page(), "first");
            const ReadOnlyNote second(pages.page(), "second");
            first.reset();
          }
        });
    }
    write_to(pages.page().data());  // a newer note that was left behind would be named
  });
  EXPECT_EQ(end.how, kSegmentationFault);
  EXPECT_EQ(count(end.said, topic_line("oldest")), 1) << end.said;
}

TEST(WriteFault, is_reported_from_an_alternate_stack) {
  const ReadOnlyPages pages;
  const End end = run_until_segv([&] {
    const ReadOnlyNote note(pages.page(), "camera/image");
    std::jthread thread([&] {
      static std::vector<char> memory(test::smallest_signal_stack());
      stack_t stack{};
      stack.ss_sp = memory.data();
      stack.ss_size = memory.size();
      if (::sigaltstack(&stack, nullptr) != 0) ::_exit(1);
      write_to(pages.page().data());
    });
  });
  EXPECT_EQ(end.how, kSegmentationFault);
  EXPECT_EQ(count(end.said, topic_line("camera/image")), 1);
}

TEST(WriteFault, a_forked_child_is_told_too_and_leaves_the_parent_as_it_was) {
  const ReadOnlyPages pages;
  const End end = run_until_segv([&] {
    const ReadOnlyNote note(pages.page(), "camera/image");
    test::Child grandchild([&] {
      const ReadOnlyNote its_own(pages.page().first(1), "its own");
      write_to(pages.page().data() + 1);
      return true;
    });
    if (grandchild.wait() != kSegmentationFault) ::_exit(1);
    say("then the parent. ");
    write_to(pages.page().data());
  });
  EXPECT_EQ(end.how, kSegmentationFault);
  EXPECT_EQ(count(end.said, topic_line("camera/image")), 2);
  EXPECT_EQ(count(end.said, "then the parent. tensorbus: "), 1);
}

TEST(WriteFault, a_child_does_not_inherit_a_lock_that_another_thread_held) {
  const ReadOnlyPages pages(3);
  const End end = run_until_segv([&] {
    const ReadOnlyNote note(pages.page(2), "camera/image");
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 2; ++i)
      threads.emplace_back([&, i](const std::stop_token& stop) {
        while (!stop.stop_requested()) const ReadOnlyNote busy(pages.page(i), "busy");
      });
    for (int round = 0; round < 100; ++round) {
      test::Child grandchild([&] {
        {
          const ReadOnlyNote its_own(pages.page(0), "its own");
        }  // would hang
        write_to(pages.page(2).data());
        return true;
      });
      if (grandchild.wait() != kSegmentationFault) ::_exit(1);
    }
  });
  EXPECT_EQ(end.how, "exit 0");
  EXPECT_EQ(count(end.said, topic_line("camera/image")), 100);
}

}  // namespace
}  // namespace tensorbus::platform
