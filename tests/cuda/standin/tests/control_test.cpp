#include <atomic>
#include <thread>

#include "process.hpp"

namespace standin::test {
namespace {

TEST(Failures, begin_after_so_many_calls_and_end_when_told) {
  in_process([] {
    EXPECT_OK(cuInit(0));
    int count = 0;
    standin_fail("cuDeviceGetCount", 1, 999);
    EXPECT_OK(cuDeviceGetCount(&count));
    EXPECT_RESULT(kUnknown, cuDeviceGetCount(&count));
    EXPECT_RESULT(kUnknown, cuDeviceGetCount(&count));
    standin_fail("cuDeviceGetCount", 0, 0);
    EXPECT_OK(cuDeviceGetCount(&count));
    EXPECT_EQ(standin_calls("cuDeviceGetCount"), 4U);
  });
}

TEST(Calls, are_counted_for_each_thread) {
  in_process([] {
    EXPECT_OK(cuInit(0));
    std::thread([] {
      EXPECT_OK(cuInit(0));
      EXPECT_EQ(standin_calls_here("cuInit"), 1U);
    }).join();
    EXPECT_EQ(standin_calls_here("cuInit"), 1U);
    EXPECT_EQ(standin_calls("cuInit"), 2U);
  });
}

TEST(Streams, are_finished_with_when_all_have_run) {
  in_process([] {
    const Session session;
    std::atomic<int> run{0};
    for (int i = 0; i < 3; ++i)
      standin_launch(
          new_stream(), [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &run);
    standin_finish();
    EXPECT_EQ(run.load(), 3);
  });
}

TEST(Failures, come_from_the_environment_too) {
  in_process({{"STANDIN_FAIL", "cuInit:0:803,cuDeviceGetCount:0:1"}}, [] {
    int count = 0;
    EXPECT_RESULT(kSystemDriverMismatch, cuInit(0));
    EXPECT_RESULT(kInvalidValue, cuDeviceGetCount(&count));
    standin_fail("cuDeviceGetCount", 0, 0);
    EXPECT_RESULT(kNotInitialized, cuDeviceGetCount(&count));
  });
}

TEST(Failures, of_a_function_that_is_none_abort) {
  EXPECT_EQ(outcome_in_process({}, [] { standin_fail("cuMemAlloc", 0, 1); }), "signal 6");
}

}  // namespace
}  // namespace standin::test
