#include "tensorbus/bus/doctor.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "tensorbus/bus/domain/domain.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus {
namespace {

using test::Child;
using test::open_descriptors;
using test::TemporaryDirectory;

TEST(HostProbe, this_machine_shares_memory_and_gets_everything_back) {
  const TemporaryDirectory place;
  const std::string path = place / "domain";
  ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
  const std::size_t descriptors = open_descriptors();
  const bus::HostFindings found = bus::probe_host(path);
  EXPECT_TRUE(found.can_share());
  EXPECT_EQ(found.kernel_version.why_not, "");
  EXPECT_EQ(found.pidfd.why_not, "");
  EXPECT_EQ(found.shared_memory.why_not, "");
  EXPECT_EQ(found.domain.why_not, "");
  EXPECT_EQ(found.domain_path, path);
  EXPECT_GT(found.memory_bytes, 0U);
  EXPECT_NE(found.memory_limit, "");
  EXPECT_TRUE(found.domain_exists);
  EXPECT_EQ(open_descriptors(), descriptors);
  const auto names = bus::Domain(path).list();
  EXPECT_EQ(std::ranges::count_if(names, [](const auto& name) { return name.front() != '.'; }), 0);
}

TEST(HostProbe, a_domain_that_is_not_there_is_not_made) {
  const TemporaryDirectory place;
  const bus::HostFindings found = bus::probe_host(place / "a/domain");
  EXPECT_EQ(found.domain.why_not, "");
  EXPECT_FALSE(found.domain_exists);
  EXPECT_TRUE(found.can_share());
  EXPECT_TRUE(std::filesystem::is_empty(place.path()));
  place.write("file", "");
  EXPECT_FALSE(bus::probe_host(place / "file/domain").domain.can());
  if (::geteuid() == 0) return;  // may write anywhere
  ASSERT_EQ(::chmod(place.path().c_str(), 0500), 0);
  EXPECT_FALSE(bus::probe_host(place / "a/domain").domain.can());
}

TEST(HostProbe, a_domain_that_others_may_write_to_is_refused_and_the_rest_works) {
  const TemporaryDirectory place;
  ASSERT_EQ(::chmod(place.path().c_str(), 0777), 0);
  const bus::HostFindings found = bus::probe_host(place.path());
  EXPECT_NE(found.domain.why_not.find("run chmod 700"), std::string::npos);
  EXPECT_FALSE(found.can_share());
  EXPECT_TRUE(found.pidfd.can());
  EXPECT_TRUE(found.shared_memory.can());
}

TEST(HostProbe, limits_are_read_and_named_where_they_are_met) {
  const TemporaryDirectory place;
  Child child([&] {
    if (::mkdir((place / "domain").c_str(), 0700) != 0) return false;
    const rlimit none{3, 3};
    if (::setrlimit(RLIMIT_NOFILE, &none) != 0) return false;
    const bus::HostFindings found = bus::probe_host(place / "domain");
    EXPECT_EQ(found.open_files, 3U);
    EXPECT_NE(found.shared_memory.why_not.find("RLIMIT_NOFILE is 3"), std::string::npos);
    EXPECT_NE(found.domain.why_not.find("RLIMIT_NOFILE is 3"), std::string::npos);
    EXPECT_FALSE(found.pidfd.can());
    return !::testing::Test::HasFailure();
  });
  EXPECT_EQ(child.wait(), "exit 0");
}

}  // namespace
}  // namespace tensorbus
