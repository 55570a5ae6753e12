// An allocation of the thread that receives for a recorder fails: whether recording goes on or
// ends, no publisher waits for it then, and its figures are right.
#include "tensorbus/recording/record_collector.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <new>

#include "failing_new.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus::recording {
namespace {

using namespace tensorbus::testing;

constexpr std::uint32_t kDepth = 8;

struct Ran {
  bool failed = false;  // an allocation
  bool threw = false;
};

// It is ended at once, and takes what was published before.
Ran run_with_failure(Fails fails, std::size_t n) {
  const FreshDomain domain;
  const bus::ParticipantRef owner = domain.join();
  const bus::ParticipantRef recording = domain.join();
  RecordBuffer buffer(std::uint64_t{1} << 20);
  bus::Publisher publisher("topic", {.depth = kDepth, .reliable = true, .timeout = kLong}, owner);
  RecordCollector collector({.topics = {"topic"}, .reliable = true, .depth = kDepth}, recording,
                            buffer);
  EXPECT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_patterns(publisher, 0, kDepth);
  collector.end();
  Ran ran;
  fail_allocation(Whose::kMine, fails, n);
  try {
    collector.run();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kOutOfMemory) << error.what();
    ran.threw = true;
  } catch (const std::bad_alloc&) {
    ran.threw = true;
  }
  ran.failed = stop_failing();
  publish_patterns(publisher, 0, 2 * kDepth);  // it waits for nobody
  const std::size_t left = buffer.stop();
  EXPECT_LE(left + collector.lost(), kDepth);
  if (!ran.threw) {
    EXPECT_EQ(left + collector.lost(), kDepth);
  }
  return ran;
}

TEST(AllocationOfRecordCollectors, that_fails_leaves_no_publisher_that_waits) {
  Ran ran{.failed = true};
  for (std::size_t n = 0; ran.failed; n += std::max<std::size_t>(1, n / 8)) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    ran = run_with_failure(Fails::kOnce, n);
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
  EXPECT_TRUE(run_with_failure(Fails::kFromThenOn, 0).threw);
}

}  // namespace
}  // namespace tensorbus::recording
