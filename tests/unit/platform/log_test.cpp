#include "tensorbus/platform/log.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tensorbus::platform {
namespace {

using Lines = std::vector<std::pair<std::int32_t, std::string>>;

void keep(void* lines, std::int32_t level, const char* text) {
  static_cast<Lines*>(lines)->emplace_back(level, text);
}

std::string on_stderr(const std::function<void()>& run) {
  ::testing::internal::CaptureStderr();
  run();
  return ::testing::internal::GetCapturedStderr();
}

TEST(Log, lines_go_to_stderr_unless_a_program_takes_them) {
  Lines lines;
  EXPECT_EQ(on_stderr([] { log(LogLevel::kError, "one"); }), "tensorbus: one\n");
  set_log(keep, &lines);
  EXPECT_EQ(on_stderr([] { log(LogLevel::kWarning, "two"); }), "");
  set_log(nullptr, nullptr);
  EXPECT_EQ(on_stderr([] { log(LogLevel::kError, "three"); }), "tensorbus: three\n");
  EXPECT_EQ(lines, (Lines{{1, "two"}}));
}

}  // namespace
}  // namespace tensorbus::platform
