// What it takes to order two streams of one process: by a counter that the first one writes and the
// second one waits for, as timelines do; by an event; and by a host function, which is what is left
// where streams cannot wait for memory. "enqueued": until the calls have returned; "passed": until
// the second stream is seen to have passed. Nothing else is in either stream.

#include <atomic>

#include "harness/cores.hpp"
#include "harness/cuda_driver.hpp"
#include "harness/report.hpp"
#include "harness/shared_memory.hpp"

namespace {

using namespace bench;

class TwoStreams {
 public:
  TwoStreams() {
    constexpr unsigned kFlags = cu::kHostRegisterPortable | cu::kHostRegisterDeviceMap;
    cuda_.check(cuda_.MemHostRegister(page_.data(), kPageBytes, kFlags), "cuMemHostRegister");
    cuda_.check(cuda_.MemHostGetDevicePointer(&counter_, page_.data(), 0),
                "cuMemHostGetDevicePointer");
    cuda_.check(cuda_.EventCreate(&event_, cu::kEventDisableTiming), "cuEventCreate");
  }

  void run(int rounds, int repetition) {
    measure("counter", rounds, repetition, [&] {
      ++value_;
      cuda_.check(cuda_.StreamWriteValue64(first_, counter_, value_, cu::kWriteValueDefault),
                  "cuStreamWriteValue64");
      cuda_.check(cuda_.StreamWaitValue64(second_, counter_, value_, cu::kWaitValueGeq),
                  "cuStreamWaitValue64");
    });
    measure("event", rounds, repetition, [&] {
      cuda_.check(cuda_.EventRecord(event_, first_), "cuEventRecord");
      cuda_.check(cuda_.StreamWaitEvent(second_, event_, 0), "cuStreamWaitEvent");
    });
    measure("host function", rounds, repetition, [&] {
      called_.store(false, std::memory_order_relaxed);
      const auto call = [](void* called) {
        static_cast<std::atomic<bool>*>(called)->store(true, std::memory_order_release);
      };
      cuda_.check(cuda_.LaunchHostFunc(first_, call, &called_), "cuLaunchHostFunc");
      while (!called_.load(std::memory_order_acquire)) relax();
    });
  }

 private:
  static constexpr std::size_t kPageBytes = 4096;

  template <typename Order>
  void measure(const std::string& how, int rounds, int repetition, Order order) {
    Histogram enqueued, passed;
    for (int round = -rounds / 10; round < rounds; ++round) {
      const std::uint64_t begin = ticks_before();
      order();
      const std::uint64_t returned = ticks_after();
      cuda_.synchronize(second_);
      const std::uint64_t end = ticks_after();
      if (round < 0) continue;
      enqueued.add(returned - begin);
      passed.add(end - begin);
    }
    if (repetition < 0) return;
    report("enqueued: " + how, repetition, enqueued);
    report("passed: " + how, repetition, passed);
  }

  const CudaDriver cuda_;
  const SharedMemory page_{kPageBytes};
  const cu::Stream first_ = cuda_.make_stream();
  const cu::Stream second_ = cuda_.make_stream();
  cu::Event event_ = nullptr;
  cu::DevicePtr counter_ = 0;
  std::uint64_t value_ = 0;
  std::atomic<bool> called_{false};
};

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = Arguments::parse(count, values);
  ns_per_tick();
  TwoStreams streams;
  streams.run(1, -1);  // the driver's thread for host functions is not to start on our core
  pin_to(core_pair().sender);
  for (int repetition = 0; repetition < arguments.repetitions(); ++repetition)
    streams.run(arguments.quick ? 500 : 10'000, repetition);
}
