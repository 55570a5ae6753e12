#include "tensorbus/platform/check.hpp"

#include <gtest/gtest.h>

#include "tensorbus/platform/error.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus {
namespace {

TEST(Check, says_where_our_bug_is_and_ends_the_process) {
  check(true);
  EXPECT_DEATH(check(false), "internal invariant broken at .*check_test.cpp:[0-9]+");
}

TEST(Error, of_the_system_has_its_text) {
  std::string message;
  EXPECT_EQ(test::error_of([] { throw_system("opening the door", ENOENT); }, &message), "System");
  EXPECT_EQ(message, "opening the door: No such file or directory");
}

}  // namespace
}  // namespace tensorbus
