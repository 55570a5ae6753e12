// There and back from one process to another, both polling: a loan on the GPU is published, and
// what the other end received is published onwards and comes back. No kernel runs: it is the way
// that is measured, with all that it asks of the driver. Beside it, what CUDA IPC takes by hand.

#include <optional>

#include "cuda_round_trip/by_hand.hpp"
#include "harness/messages.hpp"
#include "harness/report.hpp"
#include "tensorbus/device/probe.hpp"

namespace {

using namespace bench;
using namespace std::chrono_literals;
using tensorbus::Device;
using tensorbus::Layout;
using tensorbus::Outcome;
using tensorbus::TensorView;
using tensorbus::bus::Loan;
using tensorbus::bus::Sample;

// As a program has it that works with the tensor on a stream.
Sample next(tensorbus::bus::Subscriber& subscriber) {
  Sample sample;
  while (subscriber.try_receive(sample) != Outcome::kDone) {
  }
  sample.tensor().use_on(nullptr);
  return sample;
}

class RoundTrip {
 public:
  RoundTrip(TwoProcesses& both, const tensorbus::bus::ParticipantRef& participant, std::string name,
            Layout layout, Device device)
      : both_(both), name_(std::move(name)), layout_(std::move(layout)), device_(device) {
    const bool sender = both.is_sender();
    // Reliable: a reader whose stream is behind still holds what it let go of.
    publisher_.emplace(name_ + (sender ? ", there" : ", back"),
                       tensorbus::PublisherOptions{.reliable = true}, participant);
    subscriber_.emplace(name_ + (sender ? ", back" : ", there"), tensorbus::SubscriberOptions{},
                        participant);
    require(publisher_->wait_for_subscribers(1, 60s) == Outcome::kDone, "no subscriber came");
    require(subscriber_->wait_for_publishers(1, 60s) == Outcome::kDone, "no publisher came");
  }

  void run(const Pace& pace, int repetition) {
    if (both_.is_sender())
      ask(pace, repetition);
    else
      answer(pace);
  }

 private:
  void ask(const Pace& pace, int repetition) {
    Histogram trips;
    send_paced(
        both_, pace, [&] { return loan(); },
        [&](Loan& loan) {
          const std::uint64_t begin = ticks_before();
          publisher_->publish(std::move(loan));
          const Sample back = next(*subscriber_);
          const std::uint64_t end = ticks_after();
          if (++done_ > pace.warm_up) trips.add(end - begin);
        });
    done_ = 0;
    report(name_, repetition, trips);
  }

  // What was sent before may still be on its way back: streams are slow where threads stand in.
  Loan loan() {
    for (const auto until = std::chrono::steady_clock::now() + 30s;;) try {
        return publisher_->loan(layout_, device_);
      } catch (const tensorbus::Error& error) {
        const bool later = error.code() == tensorbus::Code::kOutOfMemory;
        if (!later || std::chrono::steady_clock::now() > until) throw;
        ::usleep(1'000);
      }
  }

  void answer(const Pace& pace) {
    Histogram unused;
    receive_paced(both_, pace, unused, [&](std::uint64_t) {
      const Sample sample = next(*subscriber_);
      const tensorbus::bus::Tensor& tensor = sample.tensor();
      publisher_->publish(TensorView{tensor.data(), tensor.layout(), tensor.device()});
      return 0;
    });
  }

  TwoProcesses& both_;
  std::string name_;
  Layout layout_;
  Device device_;
  std::uint64_t done_ = 0;
  std::optional<tensorbus::bus::Publisher> publisher_;
  std::optional<tensorbus::bus::Subscriber> subscriber_;
};

// Of the first device, in bytes; both ends find the same.
std::size_t device_memory() {
  const tensorbus::device::CudaFindings found = tensorbus::device::probe_cuda();
  require(!found.devices.empty(), found.driver.why_not.c_str());
  return found.devices.front().memory_bytes;
}

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = Arguments::parse(count, values);
  const Pace pace{
      .messages = arguments.quick ? 1'000U : 5'000U, .warm_up = 100, .pause_ns = 20'000};
  const auto bytes = [](std::int64_t size) {
    return Layout::contiguous(tensorbus::DType::kUInt8, {size});
  };

  const Shared<Exported> exported;
  TwoProcesses both;
  {
    const std::size_t memory = device_memory();
    const tensorbus::bus::ParticipantRef participant =
        tensorbus::bus::make_participant(both.participant_options());
    RoundTrip host(both, participant, "24.9 MB, main memory", kImage, Device::host());
    RoundTrip image(both, participant, "24.9 MB", kImage, Device::cuda(0));
    RoundTrip small(both, participant, "64 B", kSmall, Device::cuda(0));
    ByHand by_hand(both, *exported);
    std::optional<RoundTrip> large;
    std::optional<RoundTrip> huge;
    // Some are on their way back still while the next is made.
    if (memory > (std::size_t{4} << 30))
      large.emplace(both, participant, "1 GiB", bytes(1LL << 30), Device::cuda(0));
    if (memory > (std::size_t{20} << 30))
      huge.emplace(both, participant, "4 GiB", bytes(1LL << 32), Device::cuda(0));
    for (int repetition = 0; repetition < arguments.repetitions(); ++repetition) {
      host.run(pace, repetition);
      image.run(pace, repetition);
      small.run(pace, repetition);
      by_hand.run(pace, repetition);
      if (large) large->run(pace, repetition);
      if (huge) huge->run(pace, repetition);
    }
  }
}
