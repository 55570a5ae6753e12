#include "tensorbus/bus/domain.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tensorbus/bus/test_support.hpp"
#include "tensorbus/bus/topic_name.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {
namespace {

using namespace tensorbus::testing;

// An environment variable for as long as this lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(DomainPath, a_path_is_taken_as_it_is) { EXPECT_EQ(domain_path("/a/b"), "/a/b"); }

TEST(DomainPath, a_name_lies_in_the_runtime_directory) {
  const FreshDirectory runtime;
  const Variable variable("XDG_RUNTIME_DIR", runtime.path());
  EXPECT_EQ(domain_path("robot"), runtime.path() + "/tensorbus/robot");
}

TEST(DomainPath, without_a_runtime_directory_it_lies_in_tmp) {
  const Variable variable("XDG_RUNTIME_DIR", "/nowhere");
  EXPECT_EQ(domain_path("robot"), "/tmp/tensorbus-" + std::to_string(::geteuid()) + "/robot");
}

TEST(DomainPath, the_environment_names_the_default) {
  const Variable runtime("XDG_RUNTIME_DIR", "/nowhere");
  const Variable variable("TENSORBUS_DOMAIN", "lab");
  EXPECT_TRUE(domain_path("").ends_with("/lab"));
  EXPECT_TRUE(domain_path("own").ends_with("/own"));
}

TEST(DomainPath, dots_name_no_domain) {
  EXPECT_THROW(domain_path("."), Error);
  EXPECT_THROW(domain_path(".."), Error);
}

TEST(Domain, is_made_with_its_parents_for_the_user_alone) {
  const FreshDirectory directory;
  const Domain domain(directory.path() + "/a/b");
  struct stat status{};
  ASSERT_EQ(::stat(domain.path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
}

TEST(Domain, that_others_may_write_to_is_refused) {
  const FreshDirectory directory;
  for (const mode_t mode : {0720U, 0702U, 0777U}) {
    ASSERT_EQ(::chmod(directory.path().c_str(), mode), 0);
    EXPECT_EQ(code_of([&] { Domain domain(directory.path()); }), Code::kPermission);
  }
}

TEST(Domain, of_another_user_is_refused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  const FreshDirectory directory;
  ASSERT_EQ(::chown(directory.path().c_str(), 65534, 65534), 0);
  EXPECT_EQ(code_of([&] { Domain domain(directory.path()); }), Code::kPermission);
}

TEST(Domain, that_is_a_file_is_refused) {
  const FreshDirectory directory;
  const std::string path = directory.path() + "/file";
  std::ofstream(path) << "x";
  EXPECT_EQ(code_of([&] { Domain domain(path); }), Code::kSystem);
}

TEST(Domain, a_path_longer_than_a_socket_address_works) {
  const FreshDirectory directory;
  const Domain domain(directory.path() + "/" + std::string(200, 'd') + "/" + std::string(60, 'e'));
  const Id id = Id::random();
  const platform::Fd listener = domain.listen(id);
  EXPECT_EQ(domain.connect(id).outcome, platform::Connect::kDone);
}

class Sweep : public ::testing::Test {
 protected:
  std::set<std::string> sweep() {
    domain.sweep(self);
    return directory.files();
  }
  // What a participant that was killed leaves behind.
  void leave_socket(const Id& id) { (void)domain.listen(id); }
  std::string leave_marker(const Id& id, std::uint32_t number = 1) {
    const std::string name = marker_name("topic", id, number);
    domain.add_marker(name);
    return name;
  }

  const FreshDirectory directory;
  const Domain domain{directory.path()};
  const Id self = Id::random();
  const Id other = Id::random();
  using Names = std::set<std::string>;
};

TEST_F(Sweep, removes_the_socket_and_the_markers_of_the_dead) {
  leave_socket(other);
  leave_marker(other, 1);
  leave_marker(other, 2);
  leave_marker(Id::random());
  EXPECT_EQ(directory.files().size(), 4U);
  EXPECT_EQ(sweep(), Names{});
}

TEST_F(Sweep, keeps_the_living_and_itself_and_what_is_not_ours) {
  const platform::Fd listener = domain.listen(other);
  const std::string marker = leave_marker(other);
  const std::string own = leave_marker(self);
  std::ofstream(directory.path() + "/README") << "x";
  EXPECT_EQ(sweep(), (Names{"README", socket_name(other), marker, own}));
}

TEST_F(Sweep, a_full_backlog_is_not_death) {
  const platform::Fd listener = domain.listen(other);
  const std::string marker = leave_marker(other);
  std::vector<platform::Fd> waiting;
  while (true) {
    platform::Connection connection = domain.connect(other);
    if (connection.outcome != platform::Connect::kDone) {
      EXPECT_EQ(connection.outcome, platform::Connect::kBusy);
      break;
    }
    waiting.push_back(std::move(connection.socket));
    ASSERT_LT(waiting.size(), 10'000U);
  }
  EXPECT_EQ(sweep(), (Names{socket_name(other), marker}));
}

TEST_F(Sweep, removes_the_temporary_socket_of_one_that_died_before_it_listened) {
  leave_socket(other);
  ASSERT_EQ(::renameat(AT_FDCWD, (directory.path() + "/" + socket_name(other)).c_str(), AT_FDCWD,
                       (directory.path() + "/" + temporary_socket_name(other)).c_str()),
            0);
  EXPECT_EQ(sweep(), Names{});
}

TEST_F(Sweep, keeps_a_newborn_that_listens_under_its_temporary_name) {
  const platform::Fd listener = domain.listen(other);
  ASSERT_EQ(::renameat(AT_FDCWD, (directory.path() + "/" + socket_name(other)).c_str(), AT_FDCWD,
                       (directory.path() + "/" + temporary_socket_name(other)).c_str()),
            0);
  EXPECT_EQ(sweep(), Names{temporary_socket_name(other)});
}

TEST_F(Sweep, takes_a_plain_file_at_the_place_of_a_socket_for_dead) {
  std::ofstream(directory.path() + "/" + socket_name(other)) << "x";
  EXPECT_EQ(sweep(), Names{});
}

// A sweep may come at any moment of a birth. Whoever is born into it lives.
TEST_F(Sweep, hurts_no_newborn) {
  const std::jthread sweeper([&](const std::stop_token& over) {
    while (!over.stop_requested()) domain.sweep(self);
  });
  for (int i = 0; i < (kSanitized ? 200 : 2000); ++i) {
    const Id newborn = Id::random();
    const platform::Fd listener = domain.listen(newborn);
    domain.add_marker(marker_name("topic", newborn, 1));
    ASSERT_TRUE(directory.files().contains(socket_name(newborn))) << i;
    ASSERT_EQ(domain.connect(newborn).outcome, platform::Connect::kDone) << i;
    domain.remove_files_of(newborn);
  }
}

}  // namespace
}  // namespace tensorbus::bus
