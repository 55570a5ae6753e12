#include "tensorbus/memory/file/mapped_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tensorbus/platform/files/memfd.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::memory {
namespace {

using Mode = MappedFile::Mode;
using platform::Fd;
using test::error_of;

constexpr Mode kModes[] = {Mode::kRead, Mode::kReadWrite, Mode::kCopyOnWrite};

struct MappedFileTest : testing::Test {
  // 100 bytes more than three pages, each the low byte of its place.
  void SetUp() override {
    std::string content(3 * platform::page_bytes() + 100, '\0');
    for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i);
    folder.write("data", content);
  }
  std::string path() const { return folder / "data"; }
  Fd open(Mode mode) const {
    return Fd(::open(path().c_str(), (mode == Mode::kReadWrite ? O_RDWR : O_RDONLY) | O_CLOEXEC));
  }
  MappedFile map(Mode mode, std::size_t offset, std::size_t bytes) const {
    return {open(mode).get(), path(), offset, bytes, mode};
  }
  void resize(std::size_t bytes) const {
    ASSERT_EQ(::truncate(path().c_str(), static_cast<off_t>(bytes)), 0);
  }
  std::string content() const {
    std::ifstream file(path());
    return {std::istreambuf_iterator<char>(file), {}};
  }

  test::TemporaryDirectory folder;
};

TEST_F(MappedFileTest, shows_any_stretch_of_the_file) {
  const std::size_t page = platform::page_bytes();
  for (const Mode mode : kModes)
    for (const auto& [offset, bytes] : {std::pair<std::size_t, std::size_t>{0, 1},
                                        {0, 3 * page + 100},
                                        {1, page},
                                        {page, 7},
                                        {2 * page + 33, page + 67}}) {
      const MappedFile file = map(mode, offset, bytes);
      ASSERT_EQ(file.bytes().size(), bytes);
      for (std::size_t i = 0; i < bytes; ++i)
        ASSERT_EQ(file.bytes()[i], static_cast<std::byte>(offset + i));
      EXPECT_EQ(error_of([&] { file.check(); }), "nothing thrown");
    }
}

TEST_F(MappedFileTest, nothing_is_a_stretch_too) {
  for (const Mode mode : kModes) {
    const MappedFile file = map(mode, 50, 0);
    EXPECT_TRUE(file.bytes().empty());
    EXPECT_EQ(error_of([&] { file.check(); }), "nothing thrown");
  }
  EXPECT_EQ(error_of([&] { map(Mode::kReadWrite, 0, 0).flush(); }), "nothing thrown");
}

TEST_F(MappedFileTest, more_than_the_file_has_is_refused_with_both_sizes) {
  const std::size_t size = 3 * platform::page_bytes() + 100;
  std::string message;
  EXPECT_EQ(error_of([&] { map(Mode::kRead, 1, size); }, &message), "InvalidArgument");
  for (const std::string& part : {"'" + path() + "'", "has " + std::to_string(size) + " bytes",
                                  std::to_string(size) + " bytes from byte 1 on"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_EQ(error_of([&] { map(Mode::kRead, size + 1, 0); }), "InvalidArgument");
  EXPECT_EQ(error_of([&] { map(Mode::kRead, SIZE_MAX, 2); }), "InvalidArgument");
  EXPECT_EQ(error_of([&] { map(Mode::kRead, SIZE_MAX / 2, SIZE_MAX / 2); }), "InvalidArgument");
}

TEST_F(MappedFileTest, what_is_no_regular_file_is_refused) {
  EXPECT_EQ(error_of([] {
              MappedFile(Fd(::open("/dev/zero", O_RDONLY)).get(), "/dev/zero", 0, 1, Mode::kRead);
            }),
            "InvalidArgument");
  EXPECT_EQ(error_of([] { MappedFile(Fd(::open("/", O_RDONLY)).get(), "/", 0, 1, Mode::kRead); }),
            "InvalidArgument");
  EXPECT_EQ(error_of([] { MappedFile(-1, "nothing", 0, 1, Mode::kRead); }), "System");
}

TEST_F(MappedFileTest, a_descriptor_that_cannot_be_written_is_not_mapped_so) {
  std::string message;
  EXPECT_EQ(error_of([&] { MappedFile(open(Mode::kRead).get(), path(), 0, 1, Mode::kReadWrite); },
                     &message),
            "System");
  EXPECT_NE(message.find(path()), std::string::npos) << message;
}

TEST_F(MappedFileTest, writes_reach_the_file_or_stay_our_own) {
  const std::string before = content();
  const MappedFile own = map(Mode::kCopyOnWrite, 3, 5);
  own.bytes()[0] = std::byte{'!'};
  EXPECT_EQ(content(), before);
  EXPECT_EQ(error_of([&] { own.check(); }), "nothing thrown");
  const MappedFile shared = map(Mode::kReadWrite, 3, 5);
  EXPECT_EQ(shared.bytes()[0], std::byte{3});
  shared.bytes()[1] = std::byte{'?'};
  EXPECT_EQ(content()[4], '?');
  EXPECT_EQ(error_of([&] { shared.flush(); }), "nothing thrown");
}

TEST_F(MappedFileTest, flush_is_for_writes_that_reach_the_file) {
  for (const Mode mode : {Mode::kRead, Mode::kCopyOnWrite}) {
    std::string message;
    EXPECT_EQ(error_of([&] { map(mode, 0, 1).flush(); }, &message), "InvalidArgument");
    EXPECT_NE(message.find("mode=\"r+\""), std::string::npos) << message;
  }
}

TEST_F(MappedFileTest, is_found_by_any_address_of_its_memory) {
  const MappedFile one = map(Mode::kRead, 10, 100);
  {
    const MappedFile two = map(Mode::kRead, 10, 100);
    EXPECT_EQ(MappedFile::at(&two.bytes().front()), &two);
  }
  EXPECT_EQ(MappedFile::at(&one.bytes().front()), &one);
  EXPECT_EQ(MappedFile::at(&one.bytes().back()), &one);
  EXPECT_EQ(MappedFile::at(&one), nullptr);
  EXPECT_EQ(MappedFile::at(nullptr), nullptr);
}

TEST_F(MappedFileTest, a_file_that_is_cut_short_is_an_error_with_both_sizes) {
  for (const Mode mode : kModes) {
    SetUp();
    const std::size_t size = 3 * platform::page_bytes() + 100;
    const MappedFile file = map(mode, 10, size - 10);
    resize(size - 1);  // no page is missing: only the size tells
    std::string message;
    EXPECT_EQ(error_of([&] { file.check(); }, &message), "System");
    for (const std::string& part : {"'" + path() + "'", std::to_string(size) + " bytes expected",
                                    std::to_string(size - 1) + " bytes found"})
      EXPECT_NE(message.find(part), std::string::npos) << message;
    if (mode == Mode::kReadWrite) {
      EXPECT_EQ(error_of([&] { file.flush(); }), "System");
    }
    resize(9);
    EXPECT_EQ(error_of([&] { file.check(); }), "System");
  }
}

TEST_F(MappedFileTest,
       a_reader_of_what_was_cut_off_goes_on_and_check_tells_even_when_it_grew_back) {
  for (const Mode mode : kModes) {
    SetUp();
    const std::size_t page = platform::page_bytes();
    test::Child child([&] {
      ::close(STDERR_FILENO);
      const MappedFile file = map(mode, 10, 3 * page);
      resize(page);
      std::byte* volatile gone = &file.bytes()[2 * page];
      if (*gone != std::byte{0} || error_of([&] { file.check(); }) != "System") return false;
      resize(3 * page + 100);
      std::string message;
      return error_of([&] { file.check(); }, &message) == "System" &&
             message.find("zeros replaced all from byte " + std::to_string(2 * page)) !=
                 std::string::npos;
    });
    EXPECT_EQ(child.wait(), "exit 0");
  }
}

TEST_F(MappedFileTest, what_others_write_is_an_error_for_those_who_only_read) {
  for (const Mode mode : kModes) {
    const MappedFile file = map(mode, 0, 10);
    const timespec later[2] = {{.tv_sec = 5, .tv_nsec = 0}, {.tv_sec = 5, .tv_nsec = 1}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path().c_str(), later, 0), 0);
    EXPECT_EQ(error_of([&] { file.check(); }),
              mode == Mode::kReadWrite ? "nothing thrown" : "System");
    resize(4 * platform::page_bytes());  // grown
    EXPECT_EQ(error_of([&] { file.check(); }),
              mode == Mode::kReadWrite ? "nothing thrown" : "System");
    SetUp();
  }
}

TEST_F(MappedFileTest, a_forked_child_checks_and_flushes_like_its_parent) {
  const MappedFile file = map(Mode::kReadWrite, 0, 10);
  test::Child child([&] {
    file.bytes()[1] = std::byte{'c'};
    file.flush();
    resize(5);
    return error_of([&] { file.check(); }) == "System";
  });
  EXPECT_EQ(child.wait(), "exit 0");
  EXPECT_EQ(content()[1], 'c');
}

TEST_F(MappedFileTest, a_file_is_made_with_all_its_blocks) {
  const Fd fd(::open(path().c_str(), O_RDWR | O_CLOEXEC));
  allocate_file(fd.get(), path(), 100'000);
  EXPECT_EQ(content(), std::string(100'000, '\0'));
  struct stat status{};
  ASSERT_EQ(::fstat(fd.get(), &status), 0);
  EXPECT_GE(status.st_blocks * 512, 100'000);
  allocate_file(fd.get(), path(), 0);
  EXPECT_EQ(content(), "");
}

TEST_F(MappedFileTest, a_file_for_which_there_is_no_room_is_an_error_that_names_the_limit) {
  test::Child child([&] {
    const Fd fd(::open(path().c_str(), O_RDWR | O_CLOEXEC));
    const rlimit limit{.rlim_cur = 50'000, .rlim_max = 50'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::string message;
    return error_of([&] { allocate_file(fd.get(), path(), 50'001); }, &message) == "OutOfMemory" &&
           message.find("RLIMIT_FSIZE is 50000") != std::string::npos;
  });
  EXPECT_EQ(child.wait(), "exit 0");
}

TEST_F(MappedFileTest, a_full_file_system_is_an_error_before_anything_is_touched) {
  const char* name = "/dev/shm/tensorbus-mapped-file-test";
  const Fd fd(::open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) GTEST_SKIP() << "no tmpfs to fill";
  ::unlink(name);
  std::string message;
  const std::size_t too_much = std::size_t{1} << 50;
  EXPECT_EQ(error_of([&] { allocate_file(fd.get(), "/data/a", too_much); }, &message),
            "OutOfMemory");
  EXPECT_NE(message.find("file '/data/a': making room for"), std::string::npos) << message;
  EXPECT_NE(message.find("the file system is full"), std::string::npos) << message;
  EXPECT_EQ(::lseek(fd.get(), 0, SEEK_END), 0) << "what was taken has been given back";
}

}  // namespace
}  // namespace tensorbus::memory
