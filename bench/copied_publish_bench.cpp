// publish() of 1 to 100 MB that are not in a loan, which copies them once, beside memcpy() of as
// many bytes into memory that has been written before, and into memory that has not. Once with a
// subscriber that reads none of it, and once with one that reads all of it, so that another core
// has had every line in between; it then reads what memcpy() wrote, too.

#include <algorithm>
#include <vector>

#include "harness/messages.hpp"
#include "harness/report.hpp"

namespace {

using namespace bench;
using namespace std::chrono_literals;
using tensorbus::Outcome;
using tensorbus::bus::Sample;

constexpr std::uint64_t kWarmUp = 4;          // rounds
constexpr std::uint64_t kRoundsToATouch = 5;  // it takes as long as the others together

template <typename Action>
std::uint64_t ticks_of(Action action) {
  const std::uint64_t begin = ticks_before();
  action();
  return ticks_after() - begin;
}

struct Size {
  std::string name;
  std::size_t bytes;
  std::uint64_t rounds;

  tensorbus::Layout layout() const {
    return tensorbus::Layout::contiguous(tensorbus::DType::kUInt8,
                                         {static_cast<std::int64_t>(bytes)});
  }
};

// What the two share for the rows of memcpy(), of one repetition: which pages it is of makes up to
// a tenth for 1 MB, by what they leave of the caches to the source.
struct Floor {
  std::byte* memory;
  Line& sent;  // how often it was written
};

std::uint64_t ticks_of_first_touch(const std::vector<std::byte>& source) {
  const SharedMemory fresh(source.size());
  return ticks_of([&] { std::memcpy(fresh.data(), source.data(), source.size()); });
}

// How long a call takes, and until the other one has read what came of it.
struct Way {
  Histogram call;
  Histogram until_read;

  template <typename Action>
  void time(const TwoProcesses& both, std::uint64_t ack, bool counts, Action action) {
    const std::uint64_t begin = ticks_before();
    action();
    const std::uint64_t done = ticks_after();
    both.wait_for_ack(ack);
    const std::uint64_t read = ticks_after();
    if (!counts) return;
    call.add(done - begin);
    until_read.add(read - begin);
  }
};

// Takes turns, so that whatever else the machine does hits all of them. Who begins changes with
// each round: everybody finds what the one before left in the caches.
enum class Turn { kToHeap, kToMemfd, kPublish };
constexpr std::uint64_t kTurns = 3;

template <typename Take>
void take_turns(const Size& size, Take take) {
  for (std::uint64_t round = 1; round <= kWarmUp + size.rounds; ++round)
    for (std::uint64_t turn = 0; turn < kTurns; ++turn)
      take(static_cast<Turn>((round + turn) % kTurns), round);
}

void send(TwoProcesses& both, tensorbus::bus::Publisher& publisher, const Floor& floor,
          const Size& size, bool reads, int repetition) {
  const std::vector<std::byte> source(size.bytes, std::byte{1});
  std::vector<std::byte> heap(size.bytes);
  const tensorbus::Layout layout = size.layout();
  Histogram to_heap;
  Way to_memfd;
  Way published;
  std::uint64_t ack = 0;
  take_turns(size, [&](Turn turn, std::uint64_t round) {
    const bool counts = round > kWarmUp;
    switch (turn) {
      case Turn::kToHeap: {
        const std::uint64_t ticks =
            ticks_of([&] { std::memcpy(heap.data(), source.data(), size.bytes); });
        if (counts) to_heap.add(ticks);
        break;
      }
      case Turn::kToMemfd:
        to_memfd.time(both, ++ack, counts, [&] {
          std::memcpy(floor.memory, source.data(), size.bytes);
          floor.sent.word.store(round, std::memory_order_release);
        });
        break;
      case Turn::kPublish:
        published.time(both, ++ack, counts,
                       [&] { publisher.publish(tensorbus::TensorView{source.data(), layout}); });
    }
  });
  const std::string group = size.name + (reads ? ", read: " : ": ");
  report(group + "memcpy to the heap", repetition, to_heap);
  report(group + "memcpy to a memfd", repetition, to_memfd.call);
  report(group + "publish() with a copy", repetition, published.call);
  if (reads) {
    report(group + "memcpy to a memfd, until it is read", repetition, to_memfd.until_read);
    report(group + "publish() with a copy, until it is read", repetition, published.until_read);
  } else {
    Histogram touched;
    for (std::uint64_t i = 0; i < size.rounds / kRoundsToATouch; ++i)
      touched.add(ticks_of_first_touch(source));
    report(group + "memcpy, first touch", repetition, touched);
  }
}

void read_all(const std::byte* bytes, std::size_t count) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < count / 8; ++at)
    sum += reinterpret_cast<const std::uint64_t*>(bytes)[at];
  asm volatile("" : : "r"(sum));
}

void receive(TwoProcesses& both, tensorbus::bus::Subscriber& subscriber, const Floor& floor,
             const Size& size, bool reads) {
  std::uint64_t ack = 0;
  take_turns(size, [&](Turn turn, std::uint64_t round) {
    if (turn == Turn::kToHeap) return;  // the sender's alone
    if (turn == Turn::kToMemfd) {
      while (floor.sent.word.load(std::memory_order_acquire) != round) relax();
      if (reads) read_all(floor.memory, size.bytes);
    } else {
      Sample sample;
      require(subscriber.receive(sample, 10s) == Outcome::kDone, "no sample came");
      if (reads) read_all(sample.tensors()[0].data(), size.bytes);
    }
    both.ack(++ack);
  });
}

// With memory of its own in each repetition, as its floor has.
void run(TwoProcesses& both, const Floor& floor, const Size& size, bool reads, int repetition) {
  const tensorbus::bus::ParticipantRef participant =
      tensorbus::bus::make_participant(both.participant_options());
  if (both.is_sender())
    floor.sent.word.store(0, std::memory_order_relaxed);
  else
    both.ack(0);
  both.meet();
  if (both.is_sender()) {
    tensorbus::bus::Publisher publisher("copied", {}, participant);
    require(publisher.wait_for_subscribers(1, 10s) == Outcome::kDone, "no subscriber came");
    send(both, publisher, floor, size, reads, repetition);
  } else {
    // Awake: it is the copy that is measured, and not what waking somebody takes.
    tensorbus::bus::Subscriber subscriber("copied", {.spin = 10s}, participant);
    require(subscriber.wait_for_publishers(1, 10s) == Outcome::kDone, "no publisher came");
    receive(both, subscriber, floor, size, reads);
  }
  both.meet();
}

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = Arguments::parse(count, values);
  const std::uint64_t part = arguments.quick ? 8 : 1;
  std::vector<Size> sizes{{"64 KB", 64 << 10, 2'000 / part},
                          {"1 MB", 1 << 20, 600 / part},
                          {"24.9 MB", kImage.packed_bytes(), 120 / part}};
  if (!arguments.quick) sizes.push_back({"100 MB", 100'000'000, 24});
  const auto repetitions = static_cast<std::size_t>(arguments.repetitions());
  // Of every repetition a piece of its own, of the sizes for which that matters.
  constexpr std::size_t kPiece = 2 << 20;
  const SharedMemory floors(std::max(sizes.back().bytes, repetitions * kPiece));
  TwoProcesses both;
  for (std::size_t repetition = 0; repetition < repetitions; ++repetition)
    for (const Size& size : sizes)
      for (const bool reads : {false, true}) {
        const std::size_t place = size.bytes <= kPiece ? repetition * kPiece : 0;
        const Floor floor{floors.data() + place, both.stage().sent};
        run(both, floor, size, reads, static_cast<int>(repetition));
      }
}
