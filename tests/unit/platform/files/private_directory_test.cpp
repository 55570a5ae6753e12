#include "tensorbus/platform/files/private_directory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tensorbus/platform/files/directory.hpp"
#include "tests/unit/platform/files/directory_test_support.hpp"

namespace tensorbus::platform {
namespace {

using test::error_of;
using test::mode_of;
using test::names_in;
using test::TemporaryDirectory;

TEST(PrivateDirectory, is_made_with_its_parents_for_the_user_alone) {
  const TemporaryDirectory base;
  const Fd directory = open_private_directory(base / "a/b/c");
  ASSERT_TRUE(directory);
  for (const char* part : {"a", "a/b", "a/b/c"}) EXPECT_EQ(mode_of(base / part), 0700U) << part;
  EXPECT_EQ(names_in(directory.get()), std::vector<std::string>{});
}

TEST(PrivateDirectory, is_opened_again_by_the_next_process) {
  const TemporaryDirectory base;
  const Fd first = open_private_directory(base / "domain");
  create_file(first.get(), "marker");
  test::Child child([&] {
    const Fd second = open_private_directory(base / "domain/");
    return names_in(second.get()) == std::vector<std::string>{"marker"};
  });
  EXPECT_EQ(child.wait(), "exit 0");
}

TEST(PrivateDirectory, is_refused_when_others_may_write_to_it) {
  const TemporaryDirectory base;
  for (const mode_t mode : {0720U, 0702U, 01777U, 0777U}) {
    ASSERT_EQ(::chmod(base.path().c_str(), mode), 0);
    std::string message;
    EXPECT_EQ(error_of([&] { open_private_directory(base.path()); }, &message), "Permission");
    EXPECT_NE(message.find("chmod 700"), std::string::npos) << message;
  }
  ASSERT_EQ(::chmod(base.path().c_str(), 0755), 0);
  EXPECT_TRUE(open_private_directory(base.path()));
}

TEST(PrivateDirectory, is_refused_when_it_belongs_to_somebody_else) {
  const TemporaryDirectory base;
  std::string foreign = "/";
  if (::geteuid() == 0) {
    foreign = base.path();
    ASSERT_EQ(::chown(foreign.c_str(), 65534, 65534), 0);
  }
  std::string message;
  EXPECT_EQ(error_of([&] { open_private_directory(foreign); }, &message), "Permission");
  EXPECT_NE(message.find("belongs to uid"), std::string::npos) << message;
}

TEST(PrivateDirectory, is_refused_when_it_is_no_directory_or_cannot_be_made) {
  const TemporaryDirectory base;
  base.write("file", "");
  for (const std::string& path : {base / "file", base / "file/below", std::string()})
    EXPECT_EQ(error_of([&] { open_private_directory(path); }), "System") << path;
}

TEST(PrivateDirectory, is_not_made_where_it_was_only_looked_for) {
  const TemporaryDirectory base;
  const PrivateDirectory found = open_private(base / "a/b", IfMissing::kLeave);
  EXPECT_FALSE(found.directory);
  EXPECT_TRUE(
      is_same_directory(found.above.back().get(), open_private_directory(base.path()).get()));
  EXPECT_NE(::access((base / "a").c_str(), F_OK), 0);
}

TEST(PrivateDirectory, that_was_removed_is_known_to_be) {
  const TemporaryDirectory base;
  const Fd directory = open_private_directory(base / "a");
  EXPECT_FALSE(is_removed(directory.get()));
  ASSERT_EQ(::rmdir((base / "a").c_str()), 0);
  EXPECT_TRUE(is_removed(directory.get()));
}

TEST(PrivateDirectory, dots_and_double_slashes_lead_where_they_should) {
  const TemporaryDirectory base;
  const Fd plain = open_private_directory(base / "a/b");
  const Fd other = open_private_directory(base.path() + "//./a/c/.././/b/");
  EXPECT_TRUE(is_same_directory(plain.get(), other.get()));
}

// What lies above it decides as well. Each case is <base>/above/domain.
class Above : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::mkdir(above.c_str(), 0700), 0); }
  // "Permission", and the message says what is wrong; nothing was made.
  void is_refused(const std::string& why) {
    std::string message;
    EXPECT_EQ(error_of([&] { open_private_directory(domain); }, &message), "Permission");
    EXPECT_NE(message.find(above), std::string::npos) << message;
    EXPECT_NE(message.find(why), std::string::npos) << message;
    EXPECT_NE(message.find("TENSORBUS_DOMAIN"), std::string::npos) << message;
    EXPECT_NE(::access(domain.c_str(), F_OK), 0);
  }
  void belongs_to(uid_t user, gid_t group, mode_t mode) {
    ASSERT_EQ(::chown(above.c_str(), user, group), 0);
    ASSERT_EQ(::chmod(above.c_str(), mode), 0);
  }

  const TemporaryDirectory base;
  const std::string above = base / "above";
  const std::string domain = above + "/domain";
};

TEST_F(Above, others_may_not_write) {
  for (const mode_t mode : {0777U, 0702U}) {
    ASSERT_EQ(::chmod(above.c_str(), mode), 0);
    is_refused("run chmod go-w on it");
  }
}

TEST_F(Above, the_sticky_bit_is_enough_as_in_tmp) {
  ASSERT_EQ(::chmod(above.c_str(), 01777), 0);
  EXPECT_TRUE(open_private_directory(domain));
}

TEST_F(Above, a_group_may_write_that_is_the_owner_alone) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory to a group";
  belongs_to(0, 0, 0775);  // umask 002 where each user has a group: RHEL, Fedora
  EXPECT_TRUE(open_private_directory(domain));
  ASSERT_EQ(::rmdir(domain.c_str()), 0);
  belongs_to(0, 54321, 0770);
  is_refused("group 54321, mode 0770");
}

TEST_F(Above, another_user_is_named) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  for (const mode_t mode : {0700U, 0755U, 0777U, 01777U}) {
    belongs_to(54321, 54321, mode);
    is_refused("belongs to uid 54321");
  }
}

TEST_F(Above, links_of_ours_are_followed_where_nobody_else_may_write) {
  ASSERT_EQ(::mkdir((base / "real").c_str(), 0700), 0);
  ASSERT_EQ(::symlink("../real", (above + "/relative").c_str()), 0);
  ASSERT_EQ(::symlink((base / "real").c_str(), (above + "/absolute").c_str()), 0);
  const Fd real = open_private_directory(base / "real/domain");
  for (const char* link : {"/relative", "/absolute"})
    EXPECT_TRUE(is_same_directory(
        open_private_directory(above + link + std::string("/domain")).get(), real.get()));
  ASSERT_EQ(::symlink((base / "real/domain").c_str(), domain.c_str()), 0);
  EXPECT_TRUE(is_same_directory(open_private_directory(domain).get(), real.get()));
}

TEST_F(Above, a_link_where_others_may_write_is_refused) {
  ASSERT_EQ(::chmod(above.c_str(), 01777), 0);
  ASSERT_EQ(::symlink(base.path().c_str(), (above + "/link").c_str()), 0);
  std::string message;
  EXPECT_EQ(error_of([&] { open_private_directory(above + "/link"); }, &message), "Permission");
  EXPECT_NE(message.find("is a symbolic link of uid"), std::string::npos) << message;
}

TEST_F(Above, a_link_of_another_user_is_refused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a link away";
  const std::string link = above + "/link";
  ASSERT_EQ(::symlink(base.path().c_str(), link.c_str()), 0);
  ASSERT_EQ(::lchown(link.c_str(), 54321, 54321), 0);
  std::string message;
  EXPECT_EQ(error_of([&] { open_private_directory(link + "/x"); }, &message), "Permission");
  EXPECT_NE(message.find("is a symbolic link of uid 54321"), std::string::npos) << message;
}

TEST_F(Above, links_in_a_circle_end) {
  ASSERT_EQ(::symlink("link", (above + "/link").c_str()), 0);
  std::string message;
  EXPECT_EQ(error_of([&] { open_private_directory(above + "/link"); }, &message), "System");
  EXPECT_NE(message.find("symbolic links"), std::string::npos) << message;
}

// Another may remove what we have just looked at, again and again.
TEST(PrivateDirectory, is_made_though_others_remove_it) {
  const TemporaryDirectory base;
  test::Child remover([&] {
    while (true) {
      (void)::rmdir((base / "a/b").c_str());
      (void)::rmdir((base / "a").c_str());
    }
    return true;
  });
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(open_private_directory(base / "a/b"));
}

}  // namespace
}  // namespace tensorbus::platform
