#include "tensorbus/memory/timeline.hpp"

#include "process.hpp"
#include "tensorbus/bus/test_support.hpp"

namespace tensorbus::memory {
namespace {

using platform::CudaDevice;
using platform::CudaDriver;
using platform::CudaScope;
using platform::CudaStream;
using standin::Result;
using standin::test::in_process;

std::atomic<int> unregistered = 0;
Result unregister(void* memory) {
  const Result result = standin::cuMemHostUnregister(memory);
  if (result == Result::kSuccess) ++unregistered;
  return result;
}

// It used to be called without a context, and was refused.
TEST(Timeline, its_memory_is_unregistered_in_whichever_thread_it_ends) {
  in_process([] {
    const CudaDevice& device = CudaDevice::at(0);
    const_cast<CudaDriver&>(CudaDriver::get()).MemHostUnregister = unregister;
    auto timeline = std::make_unique<Timeline>();
    {
      const CudaScope scope(device);
      const standin::Stream stream = standin::test::new_stream();
      const Mark mark = timeline->signal(CudaStream(device, stream));
      EXPECT_OK(standin::cuStreamSynchronize(stream));
      EXPECT_TRUE(timeline->reached_own(mark));
    }
    EXPECT_EQ(unregistered, 0);
    timeline.reset();  // by a thread that has no context
    EXPECT_TRUE(testing::eventually([] { return unregistered == 1; }));
  });
}

}  // namespace
}  // namespace tensorbus::memory
