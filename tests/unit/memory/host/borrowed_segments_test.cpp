#include "tensorbus/memory/host/borrowed_segments.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "tensorbus/memory/host/arena.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/platform/unix_socket.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::memory {
namespace {

using platform::Fd;

const std::size_t kBytes = platform::page_bytes();

bool is_mapped(const void* address) {
  unsigned char resident = 0;
  return ::mincore(const_cast<void*>(address), 1, &resident) == 0;
}

TEST(BorrowedSegments, are_found_once_the_message_came_until_they_retire) {
  BorrowedSegments segments(Grant::kRead);
  EXPECT_EQ(segments.find(3), nullptr);
  segments.add(3, platform::create_sealed_memfd("test", kBytes), kBytes);
  ASSERT_NE(segments.find(3), nullptr);
  EXPECT_EQ(segments.find(3)->size(), kBytes);
  segments.retire(3);
  segments.retire(3);
  EXPECT_EQ(segments.find(3), nullptr);
}

TEST(BorrowedSegments, cannot_be_made_writable_even_if_the_owner_was_careless) {
  BorrowedSegments segments(Grant::kRead);
  segments.add(0, platform::create_sealed_memfd("test", kBytes), kBytes);
  test::Child child([&] {
    ::signal(SIGSEGV, SIG_DFL);
    *reinterpret_cast<volatile char*>(segments.find(0)->data()) = 1;
    return true;
  });
  EXPECT_EQ(child.wait(), "signal " + std::to_string(SIGSEGV));
}

TEST(BorrowedSegments, stay_mapped_for_as_long_as_somebody_refers_to_them) {
  BorrowedSegments segments(Grant::kRead);
  segments.add(0, platform::create_sealed_memfd("test", kBytes), kBytes);
  BorrowedSegments::Ref lease = segments.find(0);
  const void* address = lease->data();
  segments.retire(0);
  EXPECT_TRUE(is_mapped(address));
  lease.reset();
  EXPECT_FALSE(is_mapped(address));
}

TEST(BorrowedSegments, refuse_what_is_not_a_fresh_sealed_memfd) {
  BorrowedSegments segments(Grant::kRead);
  segments.add(1, platform::create_sealed_memfd("test", kBytes), kBytes);
  const auto refusal = [&](std::uint32_t id, Fd fd, std::size_t bytes) {
    return test::error_of([&] { segments.add(id, std::move(fd), bytes); });
  };
  EXPECT_EQ(refusal(1, platform::create_sealed_memfd("test", kBytes), kBytes), "Protocol");
  EXPECT_EQ(refusal(2, platform::create_sealed_memfd("test", kBytes), 2 * kBytes), "Protocol");
  EXPECT_EQ(refusal(2, platform::make_event(), kBytes), "Protocol");
  EXPECT_EQ(refusal(2, Fd(), kBytes), "Protocol");
  EXPECT_EQ(refusal(2, platform::create_sealed_memfd("test", 0), 0), "Protocol");
  EXPECT_EQ(segments.find(2), nullptr);
  EXPECT_EQ(segments.find(1)->size(), kBytes);
}

TEST(BorrowedSegments, refuse_a_memfd_that_cannot_be_read) {
  BorrowedSegments segments(Grant::kRead);
  const Fd memory = platform::create_sealed_memfd("test", kBytes);
  const std::string path = "/proc/self/fd/" + std::to_string(memory.get());
  Fd write_only(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(write_only);
  EXPECT_EQ(test::error_of([&] { segments.add(0, std::move(write_only), kBytes); }), "Protocol");
}

TEST(BorrowedSegments, of_pages_of_their_own_can_be_written_and_outlive_the_segment) {
  BorrowedSegments segments(Grant::kRead);
  const Fd memory = platform::create_sealed_memfd("test", 4 * kBytes);
  segments.add(0, platform::reopen_read_only(memory.get()), 4 * kBytes);
  const BorrowedSegments::Ref own = segments.map_own(0, {kBytes, 3 * kBytes});
  const BorrowedSegments::Ref other = segments.map_own(0, {kBytes, 2 * kBytes});
  EXPECT_EQ(own->size(), 2 * kBytes);
  own->data()[5] = std::byte{7};
  EXPECT_EQ(segments.find(0)->data()[kBytes + 5], std::byte{0});
  EXPECT_EQ(other->data()[5], std::byte{0});
  segments.retire(0);
  EXPECT_EQ(own->data()[5], std::byte{7});
  EXPECT_EQ(test::error_of([&] { (void)segments.map_own(0, {0, kBytes}); }), "Protocol");
}

TEST(BorrowedSegments, keep_one_descriptor_each_to_map_them_again_and_to_hand_them_on) {
  const std::size_t before = test::open_descriptors();
  BorrowedSegments segments(Grant::kRead);
  segments.add(0, platform::create_sealed_memfd("test", kBytes), kBytes);
  segments.add(1, platform::create_sealed_memfd("test", kBytes), kBytes);
  EXPECT_EQ(test::open_descriptors(), before + 2);
  segments.retire(0);
  EXPECT_EQ(test::open_descriptors(), before + 1);
  BorrowedSegments writable(Grant::kWrite);
  writable.add(0, platform::create_sealed_memfd("test", kBytes), kBytes);
  EXPECT_EQ(test::open_descriptors(), before + 2);
  const SharedSegment handed = writable.hand_on(0);
  EXPECT_EQ(handed.bytes, kBytes);
  EXPECT_EQ(test::open_descriptors(), before + 3);
  EXPECT_EQ(test::error_of([&] { (void)writable.hand_on(1); }), "Closed");
}

TEST(BorrowedSegments, that_were_granted_to_be_written_change_for_all) {
  const Fd memory = platform::create_sealed_memfd("test", kBytes);
  BorrowedSegments readable(Grant::kRead);
  BorrowedSegments writable(Grant::kWrite);
  readable.add(4, platform::reopen_read_only(memory.get()), kBytes);
  writable.add(4, platform::duplicate(memory.get()), kBytes);
  writable.find(4)->data()[9] = std::byte{1};
  EXPECT_EQ(readable.find(4)->data()[9], std::byte{1});
}

TEST(BorrowedSegments, that_were_granted_to_be_written_must_be_writable) {
  const Fd memory = platform::create_sealed_memfd("test", kBytes);
  BorrowedSegments segments(Grant::kWrite);
  EXPECT_EQ(
      test::error_of([&] { segments.add(0, platform::reopen_read_only(memory.get()), kBytes); }),
      "Protocol");
  EXPECT_EQ(segments.find(0), nullptr);
}

TEST(BorrowedSegments, keep_their_bytes_when_the_owner_is_killed) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Fd here(ends[0]);
  test::Child owner([&] {
    const auto arena = Arena::create({});
    const BlockRef block = arena->allocate(1000);
    std::memset(block->data(), 42, block->bytes());
    const SharedSegment shared = arena->share_segment(block->segment());
    const std::array words{std::uint64_t{shared.bytes}, block->offset()};
    const std::array fds{shared.fd.get()};
    (void)platform::send_datagram(ends[1], std::as_bytes(std::span(words)), fds);
    ::pause();
    return false;
  });
  ::close(ends[1]);
  platform::Datagram datagram;
  ASSERT_EQ(platform::receive_datagram(here.get(), 100, 1, datagram), platform::Transfer::kDone);
  std::array<std::uint64_t, 2> words{};
  ASSERT_EQ(datagram.bytes.size(), sizeof words);
  std::memcpy(words.data(), datagram.bytes.data(), sizeof words);
  BorrowedSegments segments(Grant::kRead);
  segments.add(0, std::move(datagram.fds.at(0)), words[0]);
  ::kill(owner.pid(), SIGKILL);
  EXPECT_EQ(owner.wait(), "signal 9");
  const std::byte* data = segments.find(0)->data() + words[1];
  for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(data[i], std::byte{42});
}

// An owner that breaks its word could take all of our mappings, or all of our address space.
TEST(BorrowedSegments, refuse_more_than_an_owner_can_need) {
  constexpr std::size_t kHuge = std::size_t{1} << 43;
  BorrowedSegments few(Grant::kRead);
  few.add(0, platform::create_sealed_memfd("test", kHuge), kHuge);
  few.add(1, platform::create_sealed_memfd("test", kHuge), kHuge);
  EXPECT_EQ(
      test::error_of([&] { few.add(2, platform::create_sealed_memfd("test", kHuge), kHuge); }),
      "Protocol");
  few.retire(0);
  few.add(2, platform::create_sealed_memfd("test", kHuge), kHuge);

  BorrowedSegments many(Grant::kWrite);  // which keep no descriptors
  const Fd memory = platform::create_sealed_memfd("test", kBytes);
  const auto add = [&](std::uint32_t id) {
    many.add(id, platform::duplicate(memory.get()), kBytes);
  };
  for (std::uint32_t id = 0; id < 4096; ++id) add(id);
  EXPECT_EQ(test::error_of([&] { add(4096); }), "Protocol");
}

TEST(BorrowedSegments, are_mapped_later_if_there_is_no_address_space_now) {
  if (TENSORBUS_SANITIZED) GTEST_SKIP() << "a sanitizer has terabytes of address space";
  constexpr std::size_t kLarge = std::size_t{1} << 30;
  test::Child child([] {
    BorrowedSegments segments(Grant::kRead);
    Fd memory = platform::create_sealed_memfd("test", kLarge);
    rlimit before{};
    ::getrlimit(RLIMIT_AS, &before);
    rlimit tight = before;
    tight.rlim_cur = kLarge;
    ::setrlimit(RLIMIT_AS, &tight);
    segments.add(0, std::move(memory), kLarge);
    std::string text;
    const std::string code = test::error_of([&] { (void)segments.find(0); }, &text);
    ::setrlimit(RLIMIT_AS, &before);
    return code == "OutOfMemory" && text.find("RLIMIT_AS") != std::string::npos &&
           segments.find(0) != nullptr && segments.find(0)->size() == kLarge;
  });
  EXPECT_EQ(child.wait(), "exit 0");
}

}  // namespace
}  // namespace tensorbus::memory
