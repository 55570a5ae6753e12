// Participants whose files somebody removes, and the directory with them:
// docs/internals/protocol.md, section 1.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <list>
#include <optional>

#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/listing.hpp"
#include "tensorbus/bus/queue.hpp"
#include "tensorbus/bus/share.hpp"
#include "tests/unit/bus/test_support.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::bus {
namespace {

using namespace tensorbus::testing;

class DomainFiles : public ::testing::Test {
 protected:
  bus::ParticipantRef join() const { return bus::make_participant({.domain = path}); }
  std::set<std::string> files() const {
    std::set<std::string> names;
    std::error_code gone;
    for (const auto& entry : std::filesystem::directory_iterator(path, gone))
      names.insert(entry.path().filename());
    return names;
  }
  // Somebody does this to the domain, and it heals: the old pair goes on, and new ones find it all.
  void heals_after(const std::function<void()>& what) {
    const bus::ParticipantRef owner = join();
    const bus::ParticipantRef borrower = join();
    bus::Publisher publisher("topic", {}, owner);
    bus::Subscriber subscriber("topic", {}, borrower);
    bus::Queue queue({.name = "jobs"}, owner);
    const bus::NodeName node("camera", owner);
    const bus::Shared shared = share({}, {}, owner);
    ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
    const auto before = files();
    ASSERT_EQ(before.size(), 5U);
    what();
    EXPECT_TRUE(eventually([&] { return files() == before; }));
    const bus::ParticipantRef newcomer = join();
    bus::Subscriber another("topic", {}, newcomer);
    ASSERT_EQ(publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
    EXPECT_EQ(attach(shared.handle(), {.timeout = kLong}, newcomer).tensors().size(), 0U);
    EXPECT_EQ(bus::wait_for_node("camera", kLong, newcomer), Outcome::kDone);
    (void)bus::Queue::open("jobs", kLong, newcomer);
    publish_patterns(publisher, 1, 3);
    EXPECT_EQ(next_seeds(subscriber, 3), seeds_from(1, 3));
    EXPECT_EQ(next_seeds(another, 3), seeds_from(1, 3));
    EXPECT_FALSE(subscriber.try_receive().has_value()) << "joined twice";
    EXPECT_EQ(publisher.stats().subscribers, 2U);
  }

  const FreshDirectory base;
  const std::string path = base.path() + "/above/domain";
};

TEST_F(DomainFiles, come_back_when_somebody_removes_them) {
  heals_after([&] {
    for (const std::string& name : files()) std::filesystem::remove(path + "/" + name);
  });
}

TEST_F(DomainFiles, come_back_when_the_directory_is_removed_too) {
  heals_after([&] {
    while (std::filesystem::exists(base.path() + "/above")) {
      std::error_code somebody_was_quicker;
      std::filesystem::remove_all(base.path() + "/above", somebody_was_quicker);
      if (!files().empty()) break;
    }
  });
}

TEST_F(DomainFiles, come_back_however_often_the_directory_is_removed) {
  heals_after([&] {
    for (int times = 0; times < 40;) {
      if (!files().empty()) ++times;
      std::error_code somebody_was_quicker;
      std::filesystem::remove_all(base.path() + "/above", somebody_was_quicker);
    }
  });
}

TEST_F(DomainFiles, come_back_when_the_directory_is_renamed) {
  heals_after(
      [&] { ASSERT_EQ(std::rename(path.c_str(), (base.path() + "/elsewhere").c_str()), 0); });
  EXPECT_TRUE(std::filesystem::is_empty(base.path() + "/elsewhere"));
}

TEST_F(DomainFiles, come_back_when_a_directory_above_is_renamed) {
  heals_after([&] {
    ASSERT_EQ(std::rename((base.path() + "/above").c_str(), (base.path() + "/else").c_str()), 0);
  });
  EXPECT_TRUE(std::filesystem::is_empty(base.path() + "/else/domain"));
}

TEST_F(DomainFiles, come_back_when_another_socket_is_put_in_the_place) {
  const bus::ParticipantRef one = join();
  const std::string name = path + "/" + socket_name(one->id());
  bus::Publisher publisher("topic", {}, one);
  const Domain domain(path);
  const Id impostor = Id::random();
  const platform::Fd listener = domain.listen(impostor);
  ASSERT_EQ(std::rename((path + "/" + socket_name(impostor)).c_str(), name.c_str()), 0);
  EXPECT_TRUE(eventually([&] {
    const bus::ParticipantRef other = join();
    bus::Subscriber subscriber("topic", {}, other);
    return subscriber.wait_for_publishers(1, 100ms) == Outcome::kDone;
  }));
}

TEST_F(DomainFiles, wait_for_a_place_that_is_safe) {
  heals_after([&] {
    const std::string above = base.path() + "/above";
    ASSERT_EQ(std::rename(above.c_str(), (base.path() + "/else").c_str()), 0);
    ASSERT_EQ(::mkdir((base.path() + "/unsafe").c_str(), 0700), 0);
    ASSERT_EQ(::chmod((base.path() + "/unsafe").c_str(), 0777), 0);
    (void)std::rename((base.path() + "/unsafe").c_str(), above.c_str());
    std::filesystem::remove_all(base.path() + "/unsafe");
    ASSERT_EQ(::chmod(above.c_str(), 0700), 0);
  });
}

TEST_F(DomainFiles, are_not_made_again_once_they_were_closed) {
  const bus::ParticipantRef stays = join();
  for (int i = 0; i < 200; ++i) {
    std::optional<bus::ParticipantRef> goes = join();
    const Id id = (*goes)->id();
    std::optional<bus::Publisher> publisher(std::in_place, "topic", PublisherOptions{}, *goes);
    for (const std::string& name : files())
      if (owner_of_file(name) == id) std::filesystem::remove(path + "/" + name);
    publisher.reset();
    goes.reset();
    ASSERT_EQ(files(), std::set<std::string>{socket_name(stays->id())}) << i;
  }
}

TEST_F(DomainFiles, of_subscribers_that_were_killed_are_removed_by_their_publisher) {
  for (const std::uint32_t count : {1U, 16U}) {
    // Forked while there are no threads: the allocator of a sanitizer bears nothing else.
    std::list<test::Child> children;
    for (std::uint32_t i = 0; i < count; ++i)
      children.emplace_back([&] {
        bus::Subscriber subscriber("topic", {}, join());
        ::pause();
        return true;
      });
    const bus::ParticipantRef owner = join();
    bus::Publisher publisher("topic", {}, owner);
    ASSERT_EQ(publisher.wait_for_subscribers(count, kLong), Outcome::kDone);
    EXPECT_EQ(files().size(), count + 2);
    for (const test::Child& child : children) ::kill(child.pid(), SIGKILL);
    EXPECT_TRUE(eventually([&] { return files().size() == 2; }));
    for (const std::string& name : files()) EXPECT_EQ(owner_of_file(name), owner->id()) << name;
  }
}

TEST_F(DomainFiles, of_thousands_of_dead_keep_nobody_waiting) {
  const bus::ParticipantRef owner = join();
  const bus::ParticipantRef borrower = join();
  bus::Subscriber subscriber("topic", {}, borrower);
  bus::Publisher publisher("topic", {}, owner);
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  const auto before = files();
  const Domain domain(path);
  for (int i = 0; i < 5000; ++i) domain.add_marker(marker_name("topic", Id::random(), 1));
  EXPECT_TRUE(eventually([&] { return files() == before; }));
  publish_patterns(publisher, 1, 1);
  EXPECT_EQ(next_seeds(subscriber, 1), Seeds{1});
}

}  // namespace
}  // namespace tensorbus::bus
