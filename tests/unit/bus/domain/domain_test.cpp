#include "tensorbus/bus/domain/domain.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/platform/error.hpp"
#include "tests/unit/bus/test_support.hpp"

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

TEST(DomainPath, is_the_same_wherever_the_process_goes) {
  const std::string here = std::filesystem::current_path();
  EXPECT_EQ(domain_path("./a"), here + "/./a");
}

// Where /run/user/<uid> and /tmp are what they are here: tests/python/domain/test_one_bus.py makes
// others.
TEST(DomainPath, of_a_name_is_one_of_two_whatever_the_runtime_directory_is) {
  const std::string uid = std::to_string(::geteuid());
  const std::string before = domain_path("robot");
  EXPECT_TRUE(before == "/run/user/" + uid + "/tensorbus/robot" ||
              before == "/tmp/tensorbus-" + uid + "/robot")
      << before;
  const FreshDirectory runtime;
  const Variable variable("XDG_RUNTIME_DIR", runtime.path());
  EXPECT_EQ(domain_path("robot"), before);
}

TEST(DomainPath, the_environment_names_the_default) {
  const Variable variable("TENSORBUS_DOMAIN", "lab");
  EXPECT_TRUE(domain_path("").ends_with("/lab"));
  EXPECT_TRUE(domain_path("own").ends_with("/own"));
}

TEST(DomainPath, a_relative_one_of_the_environment_counts_from_where_it_was_first_used) {
  const Variable variable("TENSORBUS_DOMAIN", "./of_this_test");
  const std::filesystem::path here = std::filesystem::current_path();
  EXPECT_EQ(domain_path(""), here.string() + "/./of_this_test");
  std::filesystem::current_path("/");
  EXPECT_EQ(domain_path(""), here.string() + "/./of_this_test");
  std::filesystem::current_path(here);
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

bool a_cleaner_would_enter(const std::string& path) {
  const platform::Fd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return ::flock(directory.get(), LOCK_EX | LOCK_NB) == 0;  // as systemd-tmpfiles does
}

TEST(Domain, keeps_cleaners_away_while_it_is_open) {
  const FreshDirectory directory;
  std::optional<Domain> one(directory.path());
  std::optional<Domain> two(directory.path());
  EXPECT_FALSE(a_cleaner_would_enter(directory.path()));
  one.reset();
  EXPECT_FALSE(a_cleaner_would_enter(directory.path()));
  two.reset();
  EXPECT_TRUE(a_cleaner_would_enter(directory.path()));
}

TEST(Domain, that_is_being_cleaned_is_locked_later) {
  const FreshDirectory directory;
  std::optional<platform::Fd> cleaner(::open(directory.path().c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(cleaner->get(), LOCK_EX | LOCK_NB), 0);
  const Domain domain(directory.path());
  EXPECT_FALSE(domain.try_lock());
  cleaner.reset();
  EXPECT_TRUE(domain.try_lock());
  EXPECT_FALSE(a_cleaner_would_enter(directory.path()));
}

// What its participant does when files vanish, step by step.
class Followed : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(moved); }
  bool has(const std::string& name) const { return domain.inode_of(name) != 0; }

  const FreshDirectory base;
  const std::string path = base.path() + "/a/b";
  const std::string moved = base.path() + "/moved";
  const Id self = Id::random();
  const Domain domain{path};
};

TEST_F(Followed, markers_are_made_again_and_those_that_were_removed_here_are_not) {
  domain.add_marker("one", "1");
  domain.add_marker("two");
  domain.remove_file("two");
  EXPECT_FALSE(domain.restore_markers());
  ASSERT_EQ(::unlink((path + "/one").c_str()), 0);
  EXPECT_TRUE(domain.restore_markers());
  EXPECT_EQ(domain.read_marker("one", 10), "1");
  EXPECT_FALSE(has("two"));
}

TEST_F(Followed, a_directory_that_stays_is_not_left) { EXPECT_FALSE(domain.follow(self)); }

TEST_F(Followed, a_directory_that_was_removed_is_made_again) {
  ASSERT_EQ(::rmdir(path.c_str()), 0);
  domain.add_marker("one", "1");  // into nothing
  EXPECT_TRUE(domain.follow(self));
  EXPECT_TRUE(domain.restore_markers());
  EXPECT_TRUE(has("one"));
  EXPECT_FALSE(domain.follow(self));
  EXPECT_FALSE(a_cleaner_would_enter(path));
}

TEST_F(Followed, a_directory_that_was_renamed_is_left_with_nothing_of_ours) {
  const platform::Fd listener = domain.listen(self);
  const platform::Fd others = domain.listen(Id::random());
  ASSERT_EQ(std::rename((base.path() + "/a").c_str(), moved.c_str()), 0);
  EXPECT_TRUE(domain.follow(self));
  EXPECT_FALSE(has(socket_name(self)));
  EXPECT_FALSE(std::filesystem::exists(moved + "/b/" + socket_name(self)));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(moved + "/b"), {}), 1);
}

TEST_F(Followed, a_place_that_is_not_safe_any_more_is_refused) {
  ASSERT_EQ(std::rename((base.path() + "/a").c_str(), moved.c_str()), 0);
  ASSERT_EQ(::mkdir((base.path() + "/a").c_str(), 0700), 0);
  ASSERT_EQ(::chmod((base.path() + "/a").c_str(), 0777), 0);
  EXPECT_EQ(code_of([&] { domain.follow(self); }), Code::kPermission);
  ASSERT_EQ(::chmod((base.path() + "/a").c_str(), 0700), 0);
  EXPECT_TRUE(domain.follow(self));
}

TEST_F(Followed, a_birth_survives_that_the_last_one_removes_the_directory) {
  for (int i = 0; i < 100; ++i) {
    const Domain newcomer(path);
    (void)::rmdir(path.c_str());
    const Id id = Id::random();
    const platform::Fd listener = newcomer.listen(id);
    ASSERT_EQ(newcomer.connect(id).outcome, platform::Connect::kDone);
    newcomer.remove_files_of(id);
  }
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

TEST_F(Sweep, of_thousands_lists_the_directory_once) {
  for (int i = 0; i < 3000; ++i) leave_marker(Id::random());
  // 3,000 listings of 3,000 names take many seconds; the clock decides nothing here.
  EXPECT_EQ(sweep(), Names{});
}

TEST_F(Sweep, of_those_who_are_suspected_removes_the_dead_alone) {
  const platform::Fd listener = domain.listen(other);
  const std::string marker = leave_marker(other);
  const Id dead = Id::random();
  const Id unsuspected = Id::random();
  leave_marker(dead);
  const std::string left = leave_marker(unsuspected);
  EXPECT_EQ(domain.remove_files_of_dead({other, dead}), std::set<Id>{dead});
  EXPECT_EQ(directory.files(), (Names{socket_name(other), marker, left}));
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
