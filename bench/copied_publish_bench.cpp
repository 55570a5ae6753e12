// publish() of 1 to 100 MB that are not in a loan, which copies them once, beside memcpy() of as
// many bytes into memory that has been written before, and into memory that has not.

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

constexpr std::uint64_t kWarmUp = 4;  // rounds

template <typename Action>
std::uint64_t ticks_of(Action action) {
  const std::uint64_t begin = ticks_before();
  action();
  return ticks_after() - begin;
}

struct Size {
  std::string name;
  tensorbus::Layout layout;
  std::uint64_t rounds;
};

tensorbus::Layout bytes_layout(std::int64_t bytes) {
  return tensorbus::Layout::contiguous(tensorbus::DType::kUInt8, {bytes});
}

std::uint64_t ticks_of_first_touch(const std::vector<std::byte>& source) {
  const SharedMemory fresh(source.size());
  return ticks_of([&] { std::memcpy(fresh.data(), source.data(), source.size()); });
}

// Takes turns, so that whatever else the machine does hits all of them.
void send(TwoProcesses& both, tensorbus::Publisher& publisher, const Size& size, int repetition) {
  const std::size_t bytes = size.layout.packed_bytes();
  const std::vector<std::byte> source(bytes, std::byte{1});
  const std::unique_ptr<std::byte, decltype(&std::free)> heap(
      static_cast<std::byte*>(std::malloc(bytes)), &std::free);
  const SharedMemory one(bytes);
  const SharedMemory first(bytes);
  const SharedMemory second(bytes);
  constexpr std::uint64_t kRoundsToATouch = 5;  // it takes as long as all the others
  Histogram to_heap;
  Histogram to_one;
  Histogram to_two;
  Histogram published;
  Histogram touched;
  for (std::uint64_t round = 1; round <= kWarmUp + size.rounds; ++round) {
    const auto copy_to = [&](std::byte* target) {
      return ticks_of([&] { std::memcpy(target, source.data(), bytes); });
    };
    const std::uint64_t heap_ticks = copy_to(heap.get());
    const std::uint64_t one_ticks = copy_to(one.data());
    // As a publisher does whose last sample is still with its subscriber.
    const std::uint64_t two_ticks = copy_to(round % 2 == 0 ? first.data() : second.data());
    const std::uint64_t publish_ticks =
        ticks_of([&] { publisher.publish(tensorbus::TensorView{source.data(), size.layout}); });
    both.wait_for_ack(round);
    if (round <= kWarmUp) continue;
    to_heap.add(heap_ticks);
    to_one.add(one_ticks);
    to_two.add(two_ticks);
    published.add(publish_ticks);
    if (round % kRoundsToATouch == 0) touched.add(ticks_of_first_touch(source));
  }
  report(size.name + "memcpy to the heap", repetition, to_heap);
  report(size.name + "memcpy to a memfd", repetition, to_one);
  report(size.name + "memcpy to two memfds in turn", repetition, to_two);
  report(size.name + "publish() with a copy", repetition, published);
  report(size.name + "memcpy, first touch", repetition, touched);
}

void receive(TwoProcesses& both, tensorbus::Subscriber& subscriber, std::uint64_t rounds) {
  for (std::uint64_t round = 1; round <= kWarmUp + rounds; ++round) {
    {
      Sample sample;
      require(subscriber.receive(sample, 10s) == Outcome::kDone, "no sample came");
    }
    both.ack(round);
  }
}

// With memory of its own in each repetition, as the others have: which pages it is of makes up to a
// tenth for 1 MB, by what they leave of the caches to the source.
void run(TwoProcesses& both, const Size& size, int repetition) {
  const tensorbus::Participant participant(both.participant_options());
  if (!both.is_sender()) both.ack(0);
  both.meet();
  if (both.is_sender()) {
    tensorbus::Publisher publisher("copied", {}, participant);
    require(publisher.wait_for_subscribers(1, 10s) == Outcome::kDone, "no subscriber came");
    send(both, publisher, size, repetition);
  } else {
    // Awake: it is the copy that is measured, and not what waking somebody takes.
    tensorbus::Subscriber subscriber("copied", {.spin = 10s}, participant);
    require(subscriber.wait_for_publishers(1, 10s) == Outcome::kDone, "no publisher came");
    receive(both, subscriber, size.rounds);
  }
  both.meet();
}

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = Arguments::parse(count, values);
  const std::uint64_t part = arguments.quick ? 8 : 1;
  std::vector<Size> sizes{{"1 MB: ", bytes_layout(1 << 20), 600 / part},
                          {"24.9 MB: ", kImage, 120 / part}};
  if (!arguments.quick) sizes.push_back({"100 MB: ", bytes_layout(100'000'000), 24});
  TwoProcesses both;
  for (int repetition = 0; repetition < arguments.repetitions(); ++repetition)
    for (const Size& size : sizes) run(both, size, repetition);
}
