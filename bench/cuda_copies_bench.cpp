// 24.9 MB from main memory to the GPU and back: what the driver takes to copy from and to memory
// that is pinned and that is not; and what a message takes until its receiver has the copy. Towards
// the GPU the receiver copies a tensor that came through main memory; `pin` pins it once. The other
// way a tensor of the GPU is received in main memory, to which its owner copies it.

#include <vector>

#include "harness/cuda_driver.hpp"
#include "harness/messages.hpp"
#include "harness/report.hpp"

namespace {

using namespace bench;
using namespace std::chrono_literals;
using tensorbus::Device;
using tensorbus::Outcome;

const std::size_t kBytes = kImage.packed_bytes();

// The driver's own copies, between one block on the GPU and one in main memory.
class Copies {
 public:
  Copies() {
    cuda_.check(cuda_.MemAlloc(&memory_, kBytes), "cuMemAlloc");
    cuda_.check(cuda_.MemHostRegister(pinned_.data(), kBytes, cu::kHostRegisterPortable),
                "cuMemHostRegister");
  }

  // Returns when the copy is done.
  void to_gpu(const std::byte* source) const { copy(memory_, address_of(source)); }
  void from_gpu(std::byte* target) const { copy(address_of(target), memory_); }

  void run(int rounds, int repetition) {
    measure("to the GPU: driver, pinned", rounds, repetition, [&] { to_gpu(pinned_.data()); });
    measure("to the GPU: driver, pageable", rounds, repetition, [&] { to_gpu(pageable_.data()); });
    measure("from the GPU: driver, pinned", rounds, repetition, [&] { from_gpu(pinned_.data()); });
    measure("from the GPU: driver, pageable", rounds, repetition,
            [&] { from_gpu(pageable_.data()); });
  }

 private:
  static cu::DevicePtr address_of(const std::byte* byte) noexcept {
    return reinterpret_cast<cu::DevicePtr>(byte);
  }
  void copy(cu::DevicePtr target, cu::DevicePtr source) const {
    cuda_.check(cuda_.MemcpyAsync(target, source, kBytes, stream_), "cuMemcpyAsync");
    cuda_.synchronize(stream_);
  }
  template <typename Copy>
  static void measure(const char* row, int rounds, int repetition, Copy copy) {
    Histogram times;
    for (int round = -2; round < rounds; ++round) {
      const std::uint64_t begin = ticks_before();
      copy();
      const std::uint64_t end = ticks_after();
      if (round >= 0) times.add(end - begin);
    }
    report(row, repetition, times);
  }

  const CudaDriver cuda_;
  const cu::Stream stream_ = cuda_.make_stream();
  cu::DevicePtr memory_ = 0;
  const SharedMemory pinned_{kBytes};
  std::vector<std::byte> pageable_ = std::vector<std::byte>(kBytes);
};

// A topic whose receiver does something with each sample, and says when it is done.
class Topic {
 public:
  Topic(TwoProcesses& both, const tensorbus::bus::ParticipantRef& participant, std::string name,
        Device device, const tensorbus::SubscriberOptions& options)
      : both_(both), name_(std::move(name)), device_(device) {
    if (both.is_sender()) {
      publisher_.emplace(name_, tensorbus::PublisherOptions{.reliable = true}, participant);
      require(publisher_->wait_for_subscribers(1, 60s) == Outcome::kDone, "no subscriber came");
    } else {
      subscriber_.emplace(name_, options, participant);
    }
  }

  template <typename Use>
  void run(int rounds, int repetition, Use use) {
    const Pace pace{.messages = static_cast<std::uint64_t>(rounds), .warm_up = 5, .pause_ns = 0};
    Histogram times;
    if (!both_.is_sender()) {
      receive_paced(both_, pace, times, [&](std::uint64_t) {
        const std::optional<tensorbus::bus::Sample> sample = subscriber_->receive(60s);
        require(sample.has_value(), "no sample came");
        use(sample->tensor());
        return 0;
      });
      return;
    }
    std::uint64_t message = 0;
    send_paced(
        both_, pace, [&] { return publisher_->loan(kImage, device_); },
        [&](tensorbus::bus::Loan& loan) {
          const std::uint64_t begin = ticks_before();
          publisher_->publish(std::move(loan));
          ++message;
          // Not by spinning: our event loop, on the same core, may be the one that copies.
          while (both_.stage().acked.word.load(std::memory_order_acquire) != message) ::usleep(10);
          const std::uint64_t end = ticks_after();
          if (message > pace.warm_up) times.add(end - begin);
        });
    report(name_, repetition, times);
  }

 private:
  TwoProcesses& both_;
  std::string name_;
  Device device_;
  std::optional<tensorbus::bus::Publisher> publisher_;
  std::optional<tensorbus::bus::Subscriber> subscriber_;
};

// Both ends find the same.
bool can_pin(const tensorbus::bus::ParticipantRef& participant) try {
  const tensorbus::bus::Subscriber subscriber("pin", {.pin = true}, participant);
  return true;
} catch (const tensorbus::Error& error) {
  if (error.code() != tensorbus::Code::kUnsupported) throw;
  return false;
}

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = Arguments::parse(count, values);
  const int rounds = arguments.quick ? 10 : 200;
  TwoProcesses both;
  {
    Copies copies;
    const tensorbus::bus::ParticipantRef participant =
        tensorbus::bus::make_participant(both.participant_options());
    const char* const with_pin = "to the GPU: received with pin";
    std::optional<Topic> pinned;
    if (can_pin(participant))
      pinned.emplace(both, participant, with_pin, Device::host(),
                     tensorbus::SubscriberOptions{.pin = true});
    else if (both.is_sender())
      report_absent(with_pin, "this driver registers no memory that is mapped for reading");
    Topic pageable(both, participant, "to the GPU: received", Device::host(), {});
    Topic staged(both, participant, "from the GPU: received in main memory", Device::cuda(0),
                 {.device = Device::host()});
    const auto copy = [&](const tensorbus::bus::Tensor& tensor) { copies.to_gpu(tensor.data()); };
    for (int repetition = 0; repetition < arguments.repetitions(); ++repetition) {
      if (both.is_sender()) copies.run(rounds, repetition);
      if (pinned) pinned->run(rounds, repetition, copy);
      pageable.run(rounds, repetition, copy);
      staged.run(rounds, repetition, [](const tensorbus::bus::Tensor&) {});
    }
  }
}
