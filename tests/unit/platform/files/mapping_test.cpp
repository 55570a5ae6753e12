#include "tensorbus/platform/files/mapping.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "tensorbus/platform/files/memfd.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::platform {
namespace {

using Access = Mapping::Access;

bool is_mapped(const void* address) {
  unsigned char resident = 0;
  return ::mincore(const_cast<void*>(address), 1, &resident) == 0;
}

// The flags line of the mapping that holds `address`.
std::string kernel_flags(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream file("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
      inside = begin <= wanted && wanted < end;
    if (inside && line.starts_with("VmFlags:")) return line + " ";
  }
  return "";
}

TEST(Mapping, outlives_its_descriptor_and_ends_with_its_owner) {
  const void* address = nullptr;
  {
    Fd fd = create_sealed_memfd("test", page_bytes());
    const Mapping mapping(fd.get(), page_bytes(), Access::kReadWrite);
    fd.reset();
    mapping.data()[0] = std::byte{1};
    address = mapping.data();
    EXPECT_TRUE(is_mapped(address));
    EXPECT_EQ(mapping.size(), page_bytes());
  }
  EXPECT_FALSE(is_mapped(address));
}

TEST(Mapping, moves_without_unmapping) {
  const Fd fd = create_sealed_memfd("test", page_bytes());
  Mapping first(fd.get(), page_bytes(), Access::kReadWrite);
  std::byte* const address = first.data();
  Mapping second = std::move(first);
  EXPECT_EQ(first.data(), nullptr);  // NOLINT(bugprone-use-after-move): that is the question
  EXPECT_EQ(first.size(), 0U);
  EXPECT_EQ(second.data(), address);
  Mapping third;
  third = std::move(second);
  EXPECT_EQ(third.data(), address);
  EXPECT_TRUE(is_mapped(address));
}

TEST(Mapping, is_left_out_of_core_dumps) {
  const Fd fd = create_sealed_memfd("test", page_bytes());
  const Mapping mapping(fd.get(), page_bytes(), Access::kReadWrite);
  const std::string flags = kernel_flags(mapping.data());
  ASSERT_NE(flags, "");
  EXPECT_NE(flags.find(" dd "), std::string::npos) << flags;
}

TEST(Mapping, is_shared_with_a_child) {
  const Fd fd = create_sealed_memfd("test", page_bytes());
  const Mapping mapping(fd.get(), page_bytes(), Access::kReadWrite);
  test::Child child([&] {
    mapping.data()[7] = std::byte{9};
    return true;
  });
  EXPECT_EQ(child.wait(), "exit 0");
  EXPECT_EQ(mapping.data()[7], std::byte{9});
}

TEST(Mapping, a_write_through_a_readable_one_ends_the_writer_alone) {
  const Fd fd = create_sealed_memfd("test", page_bytes());
  const Mapping mapping(fd.get(), page_bytes(), Access::kRead);
  test::Child child([&] {
    ::signal(SIGSEGV, SIG_DFL);  // a sanitizer would report it and exit
    *reinterpret_cast<volatile char*>(mapping.data()) = 1;
    return true;
  });
  EXPECT_EQ(child.wait(), "signal " + std::to_string(SIGSEGV));
  EXPECT_EQ(mapping.data()[0], std::byte{0});
}

TEST(Mapping, refuses_what_cannot_be_mapped) {
  const Fd event = make_event();
  EXPECT_EQ(test::error_of([&] { Mapping(event.get(), page_bytes(), Access::kRead); }), "System");
  EXPECT_EQ(test::error_of([&] { Mapping(-1, page_bytes(), Access::kRead); }), "System");
}

TEST(Mapping, names_the_address_space_when_it_is_used_up) {
  const std::size_t too_much = std::size_t{1} << 48;  // more than a process has
  const Fd fd = create_sealed_memfd("test", too_much);
  std::string message;
  EXPECT_EQ(test::error_of([&] { Mapping(fd.get(), too_much, Access::kRead); }, &message),
            "OutOfMemory");
  EXPECT_NE(message.find("RLIMIT_AS"), std::string::npos) << message;
}

TEST(Mapping, that_copies_on_write_needs_no_writable_descriptor_and_changes_nothing) {
  const std::size_t page = page_bytes();
  const Fd fd = create_sealed_memfd("test", 3 * page);
  const Mapping shared(fd.get(), 3 * page, Access::kReadWrite);
  const Fd read_only = reopen_read_only(fd.get());
  const Mapping own(read_only.get(), 2 * page, Access::kCopyOnWrite, page);
  own.data()[0] = std::byte{1};
  EXPECT_EQ(shared.data()[page], std::byte{0});
  shared.data()[page] = std::byte{2};
  shared.data()[2 * page] = std::byte{3};
  EXPECT_EQ(own.data()[0], std::byte{1}) << "written: its own from now on";
  EXPECT_EQ(own.data()[page], std::byte{3}) << "not written: still the one page that all see";
  EXPECT_NE(kernel_flags(own.data()).find(" dd "), std::string::npos) << "left out of core dumps";
  EXPECT_NE(kernel_flags(own.data()).find(" nr "), std::string::npos) << "reserves nothing";
}

}  // namespace
}  // namespace tensorbus::platform
