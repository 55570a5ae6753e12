#include "tensorbus/platform/waiting/adaptive_spin.hpp"

#include <gtest/gtest.h>

namespace tensorbus::platform {
namespace {

using namespace std::chrono_literals;

class ASpin : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kHasOneCore) GTEST_SKIP() << "on one core nobody looks";
  }
  AdaptiveSpin spin;
};

TEST_F(ASpin, begins_asleep) { EXPECT_FALSE(spin.looks()); }

TEST_F(ASpin, looks_after_a_short_wait_for_as_long_as_it_finds_something) {
  spin.slept(40us);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(spin.looks());
    spin.looked(true);
  }
}

TEST_F(ASpin, stays_asleep_after_a_long_wait) {
  spin.slept(40us);
  spin.looked(true);
  for (int i = 0; i < 3; ++i) {
    spin.slept(1ms);
    EXPECT_FALSE(spin.looks());
  }
  spin.slept(40us);
  EXPECT_TRUE(spin.looks());
}

TEST_F(ASpin, rests_after_a_look_in_vain) {
  spin.slept(40us);
  spin.looked(false);
  spin.slept(60us);
  int waits = 0;
  for (; !spin.looks(); ++waits) spin.slept(60us);
  EXPECT_GE(waits, 10);
}

}  // namespace
}  // namespace tensorbus::platform
