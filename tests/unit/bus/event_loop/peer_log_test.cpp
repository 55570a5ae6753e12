#include "tensorbus/bus/event_loop/peer_log.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tensorbus::bus {
namespace {

using platform::LogLevel;

class PeerLogTest : public ::testing::Test {
 protected:
  PeerLogTest() {
    platform::set_log(
        [](void* kept, std::int32_t, const char* text) {
          static_cast<std::vector<std::string>*>(kept)->emplace_back(text);
        },
        &lines);
  }
  ~PeerLogTest() override { platform::set_log(nullptr, nullptr); }

  std::vector<std::string> lines;
  PeerLog log;
};

TEST_F(PeerLogTest, a_line_names_the_topic_and_the_process) {
  log.write(LogLevel::kInfo, "topic", 7, {"did ", "this"});
  log.write(LogLevel::kInfo, {}, 0, {"did that"});
  log.write(LogLevel::kInfo, "topic", PeerLog::kNoProcess, {"nobody"});
  EXPECT_EQ(lines, (std::vector<std::string>{"topic \"topic\", process 7: did this",
                                             "a process of another pid namespace: did that",
                                             "topic \"topic\": nobody"}));
}

TEST_F(PeerLogTest, a_peer_writes_one_line_without_control_characters) {
  log.write(LogLevel::kError, {}, 7, {"\x1b[31m\tmalicious\nsecond line"});
  EXPECT_EQ(lines, (std::vector<std::string>{"process 7: ?[31m?malicious"}));
}

TEST_F(PeerLogTest, the_same_line_comes_once_and_many_lines_are_cut_short) {
  for (int i = 0; i < 3; ++i) log.write(LogLevel::kError, {}, 7, {"again"});
  EXPECT_EQ(lines.size(), 1U);
  for (int i = 0; i < 100; ++i) log.write(LogLevel::kError, {}, 7, {std::to_string(i)});
  EXPECT_EQ(lines.size(), 32U);
}

}  // namespace
}  // namespace tensorbus::bus
