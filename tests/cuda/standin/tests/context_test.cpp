#include <thread>

#include "process.hpp"

namespace standin::test {
namespace {

Result allocate_and_free() {
  DevicePtr address = 0;
  const Result result = cuMemAlloc_v2(&address, 100);
  return result == Result::kSuccess ? cuMemFree_v2(address) : result;
}

TEST(Contexts, are_needed_and_current_in_one_thread_only) {
  in_process([] {
    EXPECT_OK(cuInit(0));
    EXPECT_RESULT(kInvalidContext, allocate_and_free());
    const Session session;
    EXPECT_OK(allocate_and_free());
    std::thread([] { EXPECT_RESULT(kInvalidContext, allocate_and_free()); }).join();
  });
}

TEST(Contexts, are_the_same_for_all_who_retain_them_until_the_last_release) {
  in_process([] {
    const Session session;
    Context again = nullptr;
    EXPECT_OK(cuDevicePrimaryCtxRetain(&again, 0));
    EXPECT_EQ(again, session.context());
    EXPECT_OK(cuDevicePrimaryCtxRelease_v2(0));
    EXPECT_OK(allocate_and_free());
    EXPECT_OK(cuDevicePrimaryCtxRelease_v2(0));
    EXPECT_RESULT(kInvalidContext, allocate_and_free());
    EXPECT_RESULT(kInvalidContext, cuDevicePrimaryCtxRelease_v2(0));
    EXPECT_RESULT(kInvalidContext, cuCtxPushCurrent_v2(again));
    EXPECT_OK(cuDevicePrimaryCtxRetain(&again, 0));
  });
}

TEST(Contexts, are_a_stack) {
  in_process([] {
    const Session first(0);
    {
      const Session second(1);
      EXPECT_OK(allocate_and_free());
    }
    Context popped = nullptr;
    EXPECT_OK(cuCtxPopCurrent_v2(&popped));
    EXPECT_EQ(popped, first.context());
    EXPECT_RESULT(kInvalidContext, cuCtxPopCurrent_v2(&popped));
    EXPECT_OK(cuCtxPushCurrent_v2(popped));
  });
}

TEST(Contexts, own_their_streams) {
  in_process([] {
    const Session first(0);
    const Stream stream = new_stream();
    const Session second(1);
    EXPECT_RESULT(kInvalidContext, cuStreamQuery(stream));
    EXPECT_RESULT(kInvalidContext, cuStreamDestroy_v2(stream));
  });
}

}  // namespace
}  // namespace standin::test
