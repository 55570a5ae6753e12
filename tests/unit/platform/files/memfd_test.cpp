#include "tensorbus/platform/files/memfd.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tensorbus/platform/files/mapping.hpp"
#include "tensorbus/platform/memory_room.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::platform {
namespace {

using test::error_of;

const std::size_t kBytes = 16 * page_bytes();

std::string refusal_of(int fd, std::size_t bytes) {
  std::string message;
  const std::string code =
      error_of([&] { verify_sealed_memfd(fd, bytes, "SEGMENT.segment"); }, &message);
  return code == "nothing thrown" ? code : code + ": " + message;
}

TEST(SealedMemfd, can_be_neither_shrunk_nor_grown_nor_sealed_further) {
  const Fd fd = create_sealed_memfd("test", kBytes);
  EXPECT_EQ(::ftruncate(fd.get(), 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(2 * kBytes)), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::fallocate(fd.get(), 0, static_cast<off_t>(kBytes), 4096), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ(errno, EPERM);
  struct stat status{};
  ASSERT_EQ(::fstat(fd.get(), &status), 0);
  EXPECT_EQ(static_cast<std::size_t>(status.st_size), kBytes);
}

TEST(SealedMemfd, takes_no_memory_before_it_is_touched) {
  const Fd fd = create_sealed_memfd("test", std::size_t{1} << 32);
  EXPECT_EQ(test::resident_bytes(fd.get()), 0U);
}

TEST(ReadOnlyDescriptor, shows_what_the_owner_writes) {
  const Fd fd = create_sealed_memfd("test", kBytes);
  const Fd reader = reopen_read_only(fd.get());
  const Mapping writable(fd.get(), kBytes, Mapping::Access::kReadWrite);
  const Mapping readable(reader.get(), kBytes, Mapping::Access::kRead);
  writable.data()[kBytes - 1] = std::byte{42};
  EXPECT_EQ(readable.data()[kBytes - 1], std::byte{42});
}

TEST(ReadOnlyDescriptor, gives_no_way_to_write) {
  const Fd fd = create_sealed_memfd("test", kBytes);
  const Fd reader = reopen_read_only(fd.get());
  EXPECT_EQ(::write(reader.get(), "x", 1), -1);
  EXPECT_EQ(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, reader.get(), 0),
            MAP_FAILED);
  EXPECT_EQ(errno, EACCES);
  void* address = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, reader.get(), 0);
  ASSERT_NE(address, MAP_FAILED);
  EXPECT_EQ(::mprotect(address, kBytes, PROT_READ | PROT_WRITE), -1);
  EXPECT_EQ(errno, EACCES);
  ::munmap(address, kBytes);
  EXPECT_EQ(::fallocate(reader.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
  EXPECT_EQ(::fcntl(reader.get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
}

TEST(ReadOnlyDescriptor, cannot_be_made_of_what_is_not_open) {
  EXPECT_EQ(error_of([] { reopen_read_only(-1); }), "System");
}

TEST(Verify, accepts_what_the_owner_made_and_its_read_only_reopen) {
  const Fd fd = create_sealed_memfd("test", kBytes);
  const Fd reader = reopen_read_only(fd.get());
  EXPECT_EQ(refusal_of(fd.get(), kBytes), "nothing thrown");
  EXPECT_EQ(refusal_of(reader.get(), kBytes), "nothing thrown");
}

TEST(Verify, refuses_another_size_and_says_both) {
  const Fd fd = create_sealed_memfd("test", kBytes);
  for (const std::size_t other : {std::size_t{0}, kBytes - 1, kBytes + 1, ~std::size_t{0}})
    EXPECT_EQ(refusal_of(fd.get(), other),
              "Protocol: SEGMENT.segment: expected a sealed memfd, got one of " +
                  std::to_string(kBytes) + " bytes, not " + std::to_string(other));
}

TEST(Verify, refuses_a_memfd_that_lacks_any_one_seal) {
  constexpr int kAll = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  for (const int missing : {kAll, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL}) {
    const Fd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(fd.get(), static_cast<off_t>(kBytes)), 0);
    ASSERT_EQ(::fcntl(fd.get(), F_ADD_SEALS, kAll & ~missing), 0);
    EXPECT_EQ(refusal_of(fd.get(), kBytes),
              "Protocol: SEGMENT.segment: expected a sealed memfd, got one that lacks seals");
  }
}

TEST(Verify, refuses_everything_that_is_no_memfd) {
  const test::TemporaryDirectory directory;
  directory.write("file", std::string(kBytes, 'x'));
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const Fd reader(ends[0]);
  const Fd writer(ends[1]);
  const Fd file(::open((directory / "file").c_str(), O_RDWR | O_CLOEXEC));
  const Fd folder(::open(directory.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Fd zero(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  const Fd event = make_event();
  const Fd memory = create_sealed_memfd("test", kBytes);
  const Fd path_only(
      ::open(("/proc/self/fd/" + std::to_string(memory.get())).c_str(), O_PATH | O_CLOEXEC));
  for (const Fd* fd : {&reader, &writer, &file, &folder, &zero, &event, &path_only}) {
    ASSERT_TRUE(*fd);
    EXPECT_EQ(refusal_of(fd->get(), kBytes).substr(0, 26), "Protocol: SEGMENT.segment:");
  }
  EXPECT_EQ(refusal_of(-1, kBytes).substr(0, 26), "Protocol: SEGMENT.segment:");
}

TEST(Verify, refuses_an_ordinary_file_of_a_memory_file_system) {
  const std::string path = "/dev/shm/tensorbus-test-" + std::to_string(::getpid());
  const Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) GTEST_SKIP() << "no /dev/shm here";
  ::unlink(path.c_str());
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(kBytes)), 0);
  EXPECT_EQ(refusal_of(file.get(), kBytes).substr(0, 26), "Protocol: SEGMENT.segment:");
}

TEST(Pages, are_taken_by_a_reservation_and_given_back_by_a_punch) {
  const Fd fd = create_sealed_memfd("test", kBytes);
  const Mapping mapping(fd.get(), kBytes, Mapping::Access::kReadWrite);
  ASSERT_TRUE(reserve_pages(fd.get(), 0, kBytes));
  EXPECT_EQ(test::resident_bytes(fd.get()), kBytes);
  std::memset(mapping.data(), 1, kBytes);
  punch_pages(fd.get(), page_bytes(), 2 * page_bytes());
  EXPECT_EQ(test::resident_bytes(fd.get()), kBytes - 2 * page_bytes());
  EXPECT_EQ(mapping.data()[page_bytes() - 1], std::byte{1});
  EXPECT_EQ(mapping.data()[page_bytes()], std::byte{0});
  EXPECT_EQ(mapping.data()[3 * page_bytes()], std::byte{1});
}

TEST(Pages, beyond_the_end_are_an_error_and_not_a_lack_of_memory) {
  const Fd fd = create_sealed_memfd("test", kBytes);
  EXPECT_EQ(error_of([&] { (void)reserve_pages(fd.get(), kBytes, page_bytes()); }), "System");
}

TEST(FileSizeLimit, is_reported_instead_of_killing_the_process) {
  test::Child child([] {
    const rlimit limit{1 << 20, 1 << 20};
    if (::setrlimit(RLIMIT_FSIZE, &limit) < 0 || max_file_bytes() != 1 << 20) return false;
    const Fd fits = create_sealed_memfd("test", 1 << 20);
    std::string message;
    const std::string code = error_of([] { create_sealed_memfd("test", (1 << 20) + 1); }, &message);
    return code == "OutOfMemory" && message.find("RLIMIT_FSIZE") != std::string::npos &&
           message.find("1048576") != std::string::npos;
  });
  EXPECT_EQ(child.wait(), "exit 0");  // not SIGXFSZ
}

TEST(Writable, is_a_descriptor_that_can_be_written_of_memory_that_may) {
  const Fd fd = create_sealed_memfd("test", page_bytes());
  EXPECT_EQ(test::error_of([&] { verify_writable(fd.get(), "x"); }), "nothing thrown");
  const Fd read_only = reopen_read_only(fd.get());
  EXPECT_EQ(test::error_of([&] { verify_writable(read_only.get(), "x"); }), "Protocol");
  for (const int seal : {F_SEAL_WRITE, 0x0010}) {
    const Fd sealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (::fcntl(sealed.get(), F_ADD_SEALS, seal) < 0) continue;  // an old kernel
    EXPECT_EQ(test::error_of([&] { verify_writable(sealed.get(), "x"); }), "Protocol") << seal;
  }
}

}  // namespace
}  // namespace tensorbus::platform
