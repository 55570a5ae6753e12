// publish() of 24.9 MB that are not in a loan, which copies them once, beside memcpy() of as many
// bytes into memory that has been written before.

#include <cstdlib>
#include <memory>
#include <vector>

#include "harness/messages.hpp"
#include "harness/report.hpp"

namespace {

using namespace bench;
using namespace std::chrono_literals;
using tensorbus::Outcome;
using tensorbus::Sample;

template <typename Action>
std::uint64_t ticks_of(Action action) {
  const std::uint64_t begin = ticks_before();
  action();
  return ticks_after() - begin;
}

// Takes turns, so that whatever else the machine does hits all of them.
void send(TwoProcesses& both, tensorbus::Publisher& publisher, std::uint64_t rounds,
          int repetition) {
  const std::size_t bytes = kImage.packed_bytes();
  const std::vector<std::byte> source(bytes, std::byte{1});
  const std::unique_ptr<std::byte, decltype(&std::free)> heap(
      static_cast<std::byte*>(std::malloc(bytes)), &std::free);
  const SharedMemory one(bytes);
  const SharedMemory first(bytes);
  const SharedMemory second(bytes);
  constexpr std::uint64_t kWarmUp = 4;
  Histogram to_heap;
  Histogram to_one;
  Histogram to_two;
  Histogram published;
  for (std::uint64_t round = 1; round <= kWarmUp + rounds; ++round) {
    const auto copy_to = [&](std::byte* target) {
      return ticks_of([&] { std::memcpy(target, source.data(), bytes); });
    };
    const std::uint64_t heap_ticks = copy_to(heap.get());
    const std::uint64_t one_ticks = copy_to(one.data());
    // As a publisher does whose last sample is still with its subscriber.
    const std::uint64_t two_ticks = copy_to(round % 2 == 0 ? first.data() : second.data());
    const std::uint64_t publish_ticks =
        ticks_of([&] { publisher.publish(tensorbus::TensorView{source.data(), kImage}); });
    both.wait_for_ack(round);
    if (round <= kWarmUp) continue;
    to_heap.add(heap_ticks);
    to_one.add(one_ticks);
    to_two.add(two_ticks);
    published.add(publish_ticks);
  }
  report("memcpy to the heap", repetition, to_heap);
  report("memcpy to a memfd", repetition, to_one);
  report("memcpy to two memfds in turn", repetition, to_two);
  report("publish() with a copy", repetition, published);
}

void receive(TwoProcesses& both, tensorbus::Subscriber& subscriber, std::uint64_t rounds) {
  constexpr std::uint64_t kWarmUp = 4;
  for (std::uint64_t round = 1; round <= kWarmUp + rounds; ++round) {
    {
      Sample sample;
      require(subscriber.receive(sample, 10s) == Outcome::kDone, "no sample came");
    }
    both.ack(round);
  }
}

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = Arguments::parse(count, values);
  const std::uint64_t rounds = arguments.quick ? 40 : 150;
  TwoProcesses both;
  {
    const tensorbus::Participant participant(both.participant_options());
    for (int repetition = 0; repetition < arguments.repetitions(); ++repetition) {
      if (!both.is_sender()) both.ack(0);
      both.meet();
      if (both.is_sender()) {
        tensorbus::Publisher publisher("copied", {}, participant);
        require(publisher.wait_for_subscribers(1, 10s) == Outcome::kDone, "no subscriber came");
        send(both, publisher, rounds, repetition);
      } else {
        tensorbus::Subscriber subscriber("copied", {}, participant);
        require(subscriber.wait_for_publishers(1, 10s) == Outcome::kDone, "no publisher came");
        receive(both, subscriber, rounds);
      }
      both.meet();
    }
  }
}
