#include "tensorbus/device/order/timeline.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "process.hpp"
#include "tensorbus/device/memory/device_memory.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus::device {
namespace {

using device::CudaDriver;
using device::Gpu;
using device::GpuScope;
using device::GpuStream;
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
    const Gpu& device = Gpu::at(0);
    const_cast<CudaDriver&>(CudaDriver::get()).MemHostUnregister = unregister;
    auto timeline = std::make_unique<Timeline>();
    {
      const GpuScope scope(device);
      const standin::Stream stream = standin::test::new_stream();
      const Mark mark = timeline->signal(GpuStream(device, stream));
      EXPECT_OK(standin::cuStreamSynchronize(stream));
      EXPECT_TRUE(timeline->reached_own(mark));
    }
    EXPECT_TRUE(
        tensorbus::testing::eventually([] { return unregistered == 3; }));  // what was tried
    timeline.reset();  // by a thread that has no context
    EXPECT_TRUE(tensorbus::testing::eventually([] { return unregistered == 4; }));
  });
}

struct Ends {
  Ends() {
    lender.order_by(OrderBy::kStreams);  // nothing is to be found out on the way
    borrower->order_by(OrderBy::kStreams);
  }
  Timeline lender{nullptr};
  platform::Mapping memory{lender.memfd().get(), TimelinePages::kBytes,
                           platform::Mapping::Access::kReadWrite};
  std::unique_ptr<Timeline> borrower =
      std::make_unique<Timeline>(platform::duplicate(lender.memfd().get()), nullptr);
};

// It was told by what the peer can write, too, and unregistered pages that a stream still writes:
// the stand-in aborts at that.
TEST(Timeline, its_memory_is_not_unregistered_because_the_peer_says_that_all_has_passed) {
  in_process([] {
    const Gpu& device = Gpu::at(0);
    Ends ends;
    standin::Stream stream = nullptr;
    {
      const GpuScope scope(device);
      stream = standin::test::new_stream();
      standin_pause(stream);
      (void)ends.borrower->signal(GpuStream(device, stream));
    }
    const std::size_t before = standin_calls("cuMemHostUnregister");
    std::memset(ends.memory.data(), 0x3f, ends.memory.size());
    ends.borrower.reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(standin_calls("cuMemHostUnregister"), before);
    const GpuScope scope(device);
    standin_resume(stream);
    EXPECT_TRUE(tensorbus::testing::eventually(
        [&] { return standin_calls("cuMemHostUnregister") == before + 2; }));
  });
}

TEST(Timeline, pages_cannot_be_taken_out_of_its_memory_once_it_is_mapped) {
  in_process([] {
    const Ends ends;
    const int memfd = ends.lender.memfd().get();
    if ((::fcntl(memfd, F_GET_SEALS) & 0x10) == 0) GTEST_SKIP() << "this kernel cannot seal that";
    EXPECT_EQ(::fallocate(memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    EXPECT_EQ(errno, EPERM);
  });
}

// Of a device whose context is broken nothing comes any more, though its process lives.
TEST(Timeline, what_a_broken_device_was_to_signal_has_failed_and_nobody_waits_for_it) {
  in_process([] {
    const Gpu& device = Gpu::at(0);
    Ends ends;
    const GpuScope scope(device);
    const GpuStream stream(device, standin::test::new_stream());
    const Mark whole = ends.lender.signal(stream);
    EXPECT_OK(standin::cuStreamSynchronize(stream.handle()));
    standin_pause(stream.handle());
    const Mark half = ends.lender.signal(stream);
    EXPECT_FALSE(ends.borrower->reached(half));
    standin_fail("cuStreamIsCapturing", 0, 700);  // CUDA_ERROR_ILLEGAL_ADDRESS
    EXPECT_EQ(testing::code_of([&] { (void)ends.lender.signal(stream); }), Code::kSystem);
    EXPECT_TRUE(tensorbus::testing::eventually([&] { return ends.borrower->reached(half); }));
    EXPECT_TRUE(ends.borrower->failed(half));
    EXPECT_FALSE(ends.borrower->failed(whole));
    standin_resume(stream.handle());  // which a broken one does not
    EXPECT_OK(standin::cuStreamSynchronize(stream.handle()));
  });
}

// Of a process that has timelines, since peers have GPUs, and uses none itself.
TEST(Timeline, its_memory_goes_where_the_driver_was_never_loaded) {
  in_process([] {
    const auto is_mapped = [] {
      std::ifstream maps("/proc/self/maps");
      const std::string text(std::istreambuf_iterator<char>(maps), {});
      return text.find("tensorbus-timeline") != text.npos;
    };
    {
      Ends ends;
      ends.lender.keep_until(Mark{.slot = 0, .value = 1}, std::make_shared<int>());
      ends.lender.peer_died();
      EXPECT_TRUE(is_mapped());
    }
    EXPECT_TRUE(tensorbus::testing::eventually([&] { return !is_mapped(); }));
    EXPECT_FALSE(Gpu::any_in_use());
  });
}

std::atomic<bool> gpu_is_busy = false;
std::atomic<bool> waits_for_gpu = false;
Result unregister_when_idle(void* memory) {
  waits_for_gpu = true;
  gpu_is_busy.wait(true);
  return standin::cuMemHostUnregister(memory);
}

// A driver may unpin memory only when the work of other streams has run, and these wait for the
// dead: whoever is to let them go on must not be the one that unpins.
TEST(Timeline, who_waits_for_the_dead_goes_on_while_the_driver_unpins) {
  in_process([] {
    const pid_t lender = ::fork();
    if (lender == 0) ::pause();
    const auto pidfd = std::make_shared<const platform::Fd>(
        static_cast<int>(::syscall(SYS_pidfd_open, lender, 0)));
    Timeline lenders{nullptr};
    Timeline borrowers{platform::duplicate(lenders.memfd().get()), pidfd};
    borrowers.order_by(OrderBy::kStreams);
    const GpuScope scope(Gpu::at(0));
    const GpuStream waiting(Gpu::at(0), standin::test::new_stream());
    borrowers.wait(waiting, {.slot = 0, .value = 1});

    gpu_is_busy = true;
    const_cast<CudaDriver&>(CudaDriver::get()).MemHostUnregister = unregister_when_idle;
    {
      Timeline other;
      other.order_by(OrderBy::kStreams);
      (void)other.signal(GpuStream(Gpu::at(0), standin::test::new_stream()));
    }
    EXPECT_TRUE(tensorbus::testing::eventually([] { return waits_for_gpu.load(); }));
    ::kill(lender, SIGKILL);
    EXPECT_TRUE(tensorbus::testing::eventually(
        [&] { return standin::cuStreamQuery(waiting.handle()) == Result::kSuccess; }));
    gpu_is_busy = false;
    gpu_is_busy.notify_all();
    ::waitpid(lender, nullptr, 0);
  });
}

// A copy to memory that is not pinned returns when it has run: behind what writes the block.
TEST(WriteMarks, hold_nobody_up_while_the_driver_waits_for_a_stream) {
  in_process([] {
    const standin::test::Session session;
    const GpuStream writer(Gpu::at(0), standin::test::new_stream());
    const GpuStream copier(Gpu::at(0), standin::test::new_stream());
    DeviceMemory memory({});
    const memory::BlockRef block = memory.allocate(Gpu::at(0), 4096);
    std::atomic<bool> published = false;
    std::thread publishing;
    const auto work = [&] {
      publishing = std::thread([&] {
        memory.marks().written_by(writer, {&block, 1});
        published = true;
      });
      EXPECT_TRUE(tensorbus::testing::eventually([&] { return published.load(); }));
    };
    memory.marks().after_whole(copier, *block, work, nullptr);
    publishing.join();
  });
}

}  // namespace
}  // namespace tensorbus::device
