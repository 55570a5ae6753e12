#include "tensorbus/platform/faults/private_pages.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/mapping.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tests/unit/platform/signal_test_support.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::platform {
namespace {

using test::count;
using test::End;
using Blocks = CopyOnWriteMapping::Blocks;

// An arena's pages as a subscriber maps them, and as their owner does.
struct LentPages {
  explicit LentPages(std::size_t pages = 8, Blocks blocks = Blocks::kOfPages)
      : bytes(pages * page_bytes()),
        fd(create_sealed_memfd("test", bytes)),
        read_only(reopen_read_only(fd.get())),
        owners(fd.get(), bytes, Mapping::Access::kReadWrite),
        mapping(read_only.get(), bytes, Mapping::Access::kRead),
        copy_on_write(all(), read_only.get(), 0, blocks) {}
  std::span<const std::byte> all() const { return {mapping.data(), bytes}; }
  std::span<const std::byte> pages(std::size_t first, std::size_t count) const {
    return all().subspan(first * page_bytes(), count * page_bytes());
  }

  const std::size_t bytes;
  Fd fd;
  Fd read_only;
  Mapping owners;
  Mapping mapping;
  CopyOnWriteMapping copy_on_write;
};

// The handler is installed in children only, as in signal_test_support.hpp.
template <typename Body>
void in_child(Body body) {
  test::Child child([&] {
    body();
    return !testing::Test::HasFailure();
  });
  EXPECT_EQ(child.wait(), "exit 0");
}

void write(std::span<const std::byte> memory, std::size_t at, int value) {
  std::byte* volatile target = const_cast<std::byte*>(memory.data() + at);
  *const_cast<volatile std::byte*>(target) = std::byte(value);
}

int read(std::span<const std::byte> memory, std::size_t at) {
  return static_cast<int>(*static_cast<const volatile std::byte*>(memory.data() + at));
}

TEST(PrivatePages, a_write_is_seen_here_and_not_by_the_owner) {
  in_child([] {
    const LentPages lent;
    const CopyOnWrite tensor(lent.all(), "t");
    write(lent.all(), 5, 7);
    EXPECT_EQ(read(lent.all(), 5), 7);
    EXPECT_EQ(lent.owners.data()[5], std::byte{0});
    EXPECT_TRUE(CopyOnWrite::is_private(lent.all().first(1)));
  });
}

TEST(PrivatePages, a_page_that_was_not_written_shows_what_the_owner_writes) {
  in_child([] {
    const LentPages lent;
    const CopyOnWrite tensor(lent.all(), "t");
    write(lent.all(), 0, 7);
    lent.owners.data()[3 * page_bytes()] = std::byte{9};
    lent.owners.data()[1] = std::byte{9};
    EXPECT_EQ(read(lent.all(), 3 * page_bytes()), 9);
    EXPECT_EQ(read(lent.all(), 1), 0) << "this page was written";
  });
}

TEST(PrivatePages, the_pages_are_shared_again_when_the_tensor_is_gone) {
  in_child([] {
    const LentPages lent;
    {
      const CopyOnWrite tensor(lent.pages(2, 3), "t");
      write(lent.pages(2, 3), 1, 7);
      EXPECT_EQ(CopyOnWrite::private_bytes(), 3 * page_bytes());
    }
    EXPECT_EQ(CopyOnWrite::private_bytes(), 0U);
    EXPECT_FALSE(CopyOnWrite::is_private(lent.all()));
    EXPECT_EQ(read(lent.pages(2, 3), 1), 0);
    lent.owners.data()[2 * page_bytes() + 1] = std::byte{9};
    EXPECT_EQ(read(lent.pages(2, 3), 1), 9);
  });
}

// Every order in which three tensors that overlap can be written, and be gone.
TEST(PrivatePages, no_write_is_lost_while_a_tensor_in_its_page_lives) {
  in_child([] {
    const std::vector<std::pair<std::size_t, std::size_t>> places = {{0, 4}, {2, 4}, {3, 2}};
    std::vector<std::size_t> writes = {0, 1, 2};
    do {
      std::vector<std::size_t> ends = {0, 1, 2};
      do {
        const LentPages lent;
        std::vector<std::unique_ptr<CopyOnWrite>> tensors;
        for (const auto& [first, pages] : places)
          tensors.push_back(std::make_unique<CopyOnWrite>(lent.pages(first, pages), "t"));
        for (const std::size_t i : writes)
          write(lent.pages(places[i].first, places[i].second), i, static_cast<int>(i) + 1);
        for (const std::size_t gone : ends) {
          for (std::size_t i = 0; i < tensors.size(); ++i)
            EXPECT_TRUE(!tensors[i] ||
                        read(lent.pages(places[i].first, 1), i) == static_cast<int>(i) + 1);
          tensors[gone].reset();
        }
        EXPECT_EQ(CopyOnWrite::private_bytes(), 0U);
        EXPECT_TRUE(
            std::ranges::all_of(lent.all(), [](std::byte value) { return value == std::byte{0}; }));
      } while (std::ranges::next_permutation(ends).found);
    } while (std::ranges::next_permutation(writes).found);
  });
}

TEST(PrivatePages, of_a_tensor_that_came_later_the_write_stays_too) {
  in_child([] {
    const LentPages lent;
    auto first = std::make_unique<CopyOnWrite>(lent.pages(0, 4), "t");
    write(lent.all(), 0, 1);
    const CopyOnWrite later(lent.pages(3, 3), "t");
    write(lent.pages(3, 3), 0, 2);
    write(lent.pages(3, 3), 2 * page_bytes(), 3);
    first.reset();
    EXPECT_EQ(read(lent.all(), 0), 1) << "the range is kept whole";
    EXPECT_EQ(read(lent.pages(3, 3), 0), 2);
    EXPECT_EQ(read(lent.pages(3, 3), 2 * page_bytes()), 3);
  });
}

TEST(PrivatePages, a_range_around_another_one_does_not_outlast_its_tensor) {
  in_child([] {
    const LentPages lent(10);
    auto around = std::make_unique<CopyOnWrite>(lent.all(), "t");
    auto within = std::make_unique<CopyOnWrite>(lent.pages(4, 1), "t");
    const CopyOnWrite rest(lent.pages(8, 2), "t");
    write(lent.pages(4, 1), 0, 1);
    write(lent.all(), 0, 2);
    write(lent.pages(7, 1), 0, 3);
    around.reset();
    within.reset();
    const CopyOnWrite later(lent.pages(4, 1), "t");
    write(lent.pages(4, 1), 0, 4);
    EXPECT_EQ(read(lent.pages(4, 1), 0), 4);
  });
}

TEST(PrivatePages, the_bytes_of_the_owner_can_be_had_elsewhere) {
  in_child([] {
    const LentPages lent;
    const CopyOnWrite tensor(lent.all(), "t", 1);
    lent.owners.data()[page_bytes() + 5] = std::byte{9};
    write(lent.all(), page_bytes() + 5, 7);
    EXPECT_FALSE(CopyOnWrite::is_of_another(lent.all(), 1));
    EXPECT_TRUE(CopyOnWrite::is_of_another(lent.all(), 2));
    const auto again = CopyOnWrite::map_again(lent.all().subspan(page_bytes() + 5, 1));
    ASSERT_TRUE(again);
    EXPECT_EQ(*again, std::byte{9});
    *again = std::byte{1};
    EXPECT_EQ(lent.owners.data()[page_bytes() + 5], std::byte{9});
  });
}

TEST(PrivatePages, a_tensor_within_a_page_has_the_page) {
  in_child([] {
    const LentPages lent;
    const auto part = lent.all().subspan(page_bytes() + 100, 50);
    const CopyOnWrite tensor(part, "t");
    write(part, 0, 1);
    EXPECT_EQ(CopyOnWrite::private_bytes(), page_bytes());
  });
}

TEST(PrivatePages, a_small_tensor_is_possible_where_no_block_shares_its_page) {
  const LentPages any_size(2, Blocks::kAnySize);
  const LentPages whole_pages(2);
  EXPECT_FALSE(CopyOnWrite::is_possible(any_size.all().first(page_bytes() - 1)));
  EXPECT_TRUE(CopyOnWrite::is_possible(any_size.all().first(page_bytes())));
  EXPECT_TRUE(CopyOnWrite::is_possible(whole_pages.all().first(1)));
}

TEST(PrivatePages, threads_that_write_to_one_page_at_once_all_do) {
  in_child([] {
    for (int round = 0; round < 50; ++round) {
      const LentPages lent(1);
      const CopyOnWrite tensor(lent.all(), "t");
      std::vector<std::jthread> threads;
      for (int i = 0; i < 8; ++i)
        threads.emplace_back([&, i] { write(lent.all(), static_cast<std::size_t>(i), i + 1); });
      threads.clear();
      for (int i = 0; i < 8; ++i) EXPECT_EQ(read(lent.all(), static_cast<std::size_t>(i)), i + 1);
    }
  });
}

TEST(PrivatePages, a_child_writes_for_itself_also_without_the_descriptor) {
  for (const bool closes : {false, true}) {
    LentPages lent;
    lent.owners.data()[1] = std::byte{5};
    const End end = test::run_in_child(SIGSEGV, [&] {
      const CopyOnWrite tensor(lent.all(), "t");
      if (closes) {  // and another file gets its number
        const int number = lent.read_only.get();
        ::dup2(create_sealed_memfd("other", page_bytes()).get(), number);
      }
      write(lent.all(), 0, 7);
      test::say(std::to_string(read(lent.all(), 0)) + std::to_string(read(lent.all(), 1)));
    });
    EXPECT_EQ(end.said, "75") << closes;
    EXPECT_EQ(read(lent.all(), 0), 0);
  }
}

TEST(PrivatePages, memory_that_is_pinned_stays_shared_and_the_message_says_why) {
  const LentPages lent;
  const End end = test::run_in_child(SIGSEGV, [&] {
    const CopyOnWrite tensor(lent.all(), "camera/image");
    const KeptShared pinned(lent.pages(1, 1));
    write(lent.all(), 0, 7);
  });
  EXPECT_EQ(end.how, "signal 11");
  EXPECT_EQ(count(end.said, "received from topic 'camera/image'. Its memory is pinned"), 1)
      << end.said;
}

TEST(PrivatePages, memory_that_was_written_cannot_be_pinned) {
  in_child([] {
    const LentPages lent;
    const CopyOnWrite tensor(lent.pages(0, 2), "t");
    write(lent.all(), 0, 7);
    EXPECT_THROW(KeptShared(lent.pages(1, 3)), Error);
    EXPECT_NO_THROW(KeptShared(lent.pages(2, 3)));
  });
}

TEST(PrivatePages, without_room_the_message_names_the_limits) {
  if (TENSORBUS_SANITIZED) GTEST_SKIP() << "a sanitizer needs memory of its own";
  const LentPages lent;
  const End end = test::run_in_child(SIGSEGV, [&] {
    const CopyOnWrite tensor(lent.all(), "camera/image");
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_DATA, &none);
    write(lent.all(), 0, 7);
  });
  EXPECT_EQ(end.how, "signal 11");
  EXPECT_EQ(count(end.said, "no room for private copies of its pages"), 1) << end.said;
}

TEST(PrivatePages, of_a_file_that_was_cut_the_zeros_can_be_written) {
  in_child([] {
    const Fd file(::memfd_create("cut", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(4 * page_bytes())), 0);
    const Mapping mapping(file.get(), 4 * page_bytes(), Mapping::Access::kRead);
    const std::span<const std::byte> all(mapping.data(), mapping.size());
    const FileGuard guard(all, "cut", false);
    const CopyOnWriteMapping copy_on_write(all, file.get(), 0, Blocks::kOfPages, &guard);
    {
      const CopyOnWrite tensor(all, "t");
      ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(2 * page_bytes())), 0);
      EXPECT_EQ(read(all, 3 * page_bytes()), 0);  // the guard puts zeros
      for (std::size_t page = 0; page < 4; ++page) {
        write(all, page * page_bytes(), 7);
        EXPECT_EQ(read(all, page * page_bytes()), 7);
      }
    }
    EXPECT_EQ(read(all, 0), 0);
    EXPECT_EQ(CopyOnWrite::private_bytes(), 0U);
  });
}

}  // namespace
}  // namespace tensorbus::platform
