#include "tensorbus/platform/files/huge_pages.hpp"

#include <gtest/gtest.h>

#include "tensorbus/platform/files/memfd.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::platform {
namespace {

constexpr std::size_t kHuge = std::size_t{2} << 20;

// A folder as /sys/kernel/mm/transparent_hugepage.
class Settings : public test::TemporaryDirectory {
 public:
  explicit Settings(const std::string& shared) {
    write("hpage_pmd_size", std::to_string(kHuge) + "\n");
    write("shmem_enabled", shared);
  }
  void write_own(const std::string& text) {
    ::mkdir((*this / "hugepages-2048kB").c_str(), 0700);
    write("hugepages-2048kB/shmem_enabled", text);
  }
};

TEST(HugePages, are_there_where_the_setting_allows_them) {
  const HugePages none;
  const HugePages asked{kHuge, false};
  const HugePages everywhere{kHuge, true};
  EXPECT_EQ(huge_pages(Settings("always within_size advise [never] deny force").path()), none);
  EXPECT_EQ(huge_pages(Settings("always within_size advise never [deny] force").path()), none);
  EXPECT_EQ(huge_pages(Settings("always within_size [advise] never deny force").path()), asked);
  EXPECT_EQ(huge_pages(Settings("always [within_size] advise never deny").path()), everywhere);
  EXPECT_EQ(huge_pages(Settings("[always] within_size advise never deny").path()), everywhere);
  EXPECT_EQ(huge_pages(Settings("always within_size advise never [force]").path()), everywhere);
}

TEST(HugePages, of_their_size_have_a_setting_that_comes_first) {
  Settings settings("always within_size advise [never] deny force");
  settings.write_own("always [inherit] within_size advise never");
  EXPECT_EQ(huge_pages(settings.path()).bytes, 0U);
  settings.write_own("always inherit within_size [advise] never");
  EXPECT_EQ(huge_pages(settings.path()), (HugePages{kHuge, false}));
  settings.write("shmem_enabled", "always within_size advise never [deny] force");
  EXPECT_EQ(huge_pages(settings.path()).bytes, 0U);
}

TEST(HugePages, are_not_used_where_the_kernel_has_none_or_very_large_ones) {
  const test::TemporaryDirectory nothing;
  EXPECT_EQ(huge_pages(nothing.path()).bytes, 0U);
  Settings settings("[always] within_size advise never deny force");
  settings.write("hpage_pmd_size", std::to_string(512 << 20));
  EXPECT_EQ(huge_pages(settings.path()).bytes, 0U);
}

TEST(HugePages, the_remedy_is_told_where_they_are_off) {
  const Settings settings("always within_size advise [never] deny force");
  std::string why;
  EXPECT_EQ(test::error_of([&] { try_huge_pages(settings.path()); }, &why), "Unsupported");
  EXPECT_EQ(why,
            settings.path() + "/shmem_enabled is \"never\": as root, write \"advise\" into it");
}

TEST(HugePages, populated_pages_are_taken_and_can_be_given_back_whatever_their_size) {
  for (const Pages pages : {Pages::kHuge, Pages::kSmall}) {
    const Fd memfd = create_sealed_memfd("test", 4 * kHuge);
    populate_pages(memfd.get(), kHuge, 2 * kHuge, pages);
    const std::size_t taken = test::resident_bytes(memfd.get());
    EXPECT_TRUE(taken == 2 * kHuge || taken == 0) << taken;  // Linux before 5.14
    ASSERT_TRUE(reserve_pages(memfd.get(), kHuge, 2 * kHuge));
    EXPECT_EQ(test::resident_bytes(memfd.get()), 2 * kHuge);
    punch_pages(memfd.get(), kHuge + page_bytes(), page_bytes());
    EXPECT_EQ(test::resident_bytes(memfd.get()), 2 * kHuge - page_bytes());
    punch_pages(memfd.get(), kHuge, 2 * kHuge);
    EXPECT_EQ(test::resident_bytes(memfd.get()), 0U);
  }
}

TEST(HugePages, pages_that_cannot_be_populated_are_left_to_be_reserved) {
  const Fd memfd = create_sealed_memfd("test", kHuge);
  populate_pages(memfd.get(), 0, std::size_t{1} << 60, Pages::kHuge);  // more than can be mapped
  EXPECT_EQ(test::resident_bytes(memfd.get()), 0U);
}

}  // namespace
}  // namespace tensorbus::platform
