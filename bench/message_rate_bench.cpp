// How many 64-byte messages a second, none of them lost: the bus beside a bare ring of cache lines
// in memory that both processes map.

#include <array>
#include <vector>

#include "harness/messages.hpp"
#include "harness/report.hpp"

namespace {

using namespace bench;
using namespace std::chrono_literals;
using tensorbus::Outcome;
using tensorbus::bus::Sample;

constexpr std::uint64_t kDepth = 1024;

// The sender's half: `send` each message, as fast as it goes, until the receiver has the last one.
template <typename Send>
void send_all(TwoProcesses& both, const char* name, std::uint64_t messages, int repetition,
              Send send) {
  both.meet();
  const std::uint64_t begin = monotonic_ns();
  for (std::uint64_t message = 1; message <= messages; ++message) send(message);
  both.wait_for_ack(messages);
  const auto seconds = static_cast<double>(monotonic_ns() - begin) * 1e-9;
  report(name, repetition, {{"per_second", static_cast<double>(messages) / seconds}});
  both.meet();
}

template <typename Take>
void receive_all(TwoProcesses& both, std::uint64_t messages, Take take) {
  both.ack(0);
  both.meet();
  for (std::uint64_t message = 1; message <= messages; ++message) take(message);
  both.ack(messages);
  both.meet();
}

// As many times the messages of the others: a few milliseconds of a machine that nobody disturbs
// are no rate, and the bus takes longer than that.
constexpr std::uint64_t kRingTimes = 10;
constexpr std::uint64_t kRowTimes = 4;

// 64 bytes in a line of their own, and the words that hand them over.
struct RingSlot {
  alignas(64) std::atomic<std::uint64_t> full{0};  // the message that lies here
  std::atomic<std::uint64_t> taken{0};             // the last one that was taken
  alignas(64) std::array<std::uint64_t, 8> words{};

  void write(std::uint64_t message) noexcept {
    for (std::uint64_t i = 0; i < words.size(); ++i)
      const_cast<volatile std::uint64_t&>(words[i]) = message + i;
  }
  bool holds(std::uint64_t message) const noexcept {
    std::uint64_t differences = 0;
    for (std::uint64_t i = 0; i < words.size(); ++i)
      differences |= const_cast<const volatile std::uint64_t&>(words[i]) ^ (message + i);
    return differences == 0;
  }
};
using Ring = std::array<RingSlot, kDepth>;

// Every byte of every message is written and read, and the clock runs from the first to the last.
void ring_rate(TwoProcesses& both, Ring& ring, std::uint64_t messages, int repetition) {
  for (RingSlot& slot : ring) slot.full = slot.taken = 0;
  const auto slot_of = [&](std::uint64_t message) -> RingSlot& { return ring[message % kDepth]; };
  if (both.is_sender())
    return send_all(both, "bare ring", messages, repetition, [&](std::uint64_t message) {
      RingSlot& slot = slot_of(message);
      const std::uint64_t before = message > kDepth ? message - kDepth : 0;
      while (slot.taken.load(std::memory_order_acquire) != before) relax();
      slot.write(message);
      slot.full.store(message, std::memory_order_release);
    });
  receive_all(both, messages, [&](std::uint64_t message) {
    RingSlot& slot = slot_of(message);
    while (slot.full.load(std::memory_order_acquire) != message) relax();
    require(slot.holds(message), "a message was lost");
    slot.taken.store(message, std::memory_order_release);
  });
}

// The number that a message begins with: a tensor, or behind the two bytes with which a MessagePack
// binary begins.
std::uint64_t number_of(const Sample& sample) {
  return read_ticks(sample.tensors().empty() ? sample.field_bytes().data() + 2
                                             : sample.tensor().data());
}

// `publish(publisher, message)` sends 64 bytes that begin with the message's number;
// `take(subscriber, samples)` says how many samples it has received.
template <typename Publish, typename Take>
void bus_rate(TwoProcesses& both, const tensorbus::bus::ParticipantRef& participant,
              const char* name, std::uint64_t messages, int repetition, Publish publish,
              Take take) {
  if (both.is_sender()) {
    tensorbus::bus::Publisher publisher(name, {.depth = kDepth, .reliable = true}, participant);
    require(publisher.wait_for_subscribers(1, 10s) == Outcome::kDone, "no subscriber came");
    return send_all(both, name, messages, repetition,
                    [&](std::uint64_t message) { publish(publisher, message); });
  }
  tensorbus::bus::Subscriber subscriber(name, {}, participant);
  require(subscriber.wait_for_publishers(1, 10s) == Outcome::kDone, "no publisher came");
  std::array<Sample, 64> samples;
  std::size_t taken = 0;
  std::size_t looked_at = 0;
  receive_all(both, messages, [&](std::uint64_t message) {
    if (looked_at == taken) {
      taken = take(subscriber, samples);
      looked_at = 0;
    }
    require(taken > 0, "no sample came");
    require(number_of(samples[looked_at++]) == message, "a sample was lost");
  });
}

// Rows of 64 bytes, published and received many at a time; each begins with its number.
struct alignas(64) Row {
  std::array<std::uint64_t, 8> words{};
};

void rows_rate(TwoProcesses& both, const tensorbus::bus::ParticipantRef& participant,
               const char* name, std::uint64_t messages, int repetition, std::uint32_t depth,
               std::uint64_t at_once) {
  std::vector<Row> rows(at_once);
  const auto layout = [](std::uint64_t count) {
    return tensorbus::Layout::contiguous(tensorbus::DType::kUInt64,
                                         {static_cast<std::int64_t>(count), 8});
  };
  if (both.is_sender()) {
    tensorbus::bus::Publisher publisher(name, {.depth = depth, .reliable = true}, participant);
    require(publisher.wait_for_subscribers(1, 10s) == Outcome::kDone, "no subscriber came");
    return send_all(both, name, messages, repetition, [&](std::uint64_t message) {
      Row& row = rows[(message - 1) % at_once];
      for (std::uint64_t i = 0; i < row.words.size(); ++i) row.words[i] = message + i;
      if (message % at_once != 0 && message != messages) return;
      const std::uint64_t count = (message - 1) % at_once + 1;
      require(publisher.publish_many({rows.data(), layout(count)}).count == count, "no room");
    });
  }
  tensorbus::bus::Subscriber subscriber(name, {}, participant);
  require(subscriber.wait_for_publishers(1, 10s) == Outcome::kDone, "no publisher came");
  std::size_t taken = 0;
  std::size_t looked_at = 0;
  const tensorbus::Layout all = layout(at_once);
  receive_all(both, messages, [&](std::uint64_t message) {
    if (looked_at == taken) {
      require(subscriber.receive_into(rows.data(), all, taken, 10s) == Outcome::kDone,
              "no row came");
      looked_at = 0;
    }
    const Row& row = rows[looked_at++];
    std::uint64_t differences = 0;
    for (std::uint64_t i = 0; i < row.words.size(); ++i)
      differences |= row.words[i] ^ (message + i);
    require(differences == 0, "a row was lost");
  });
}

using Samples = std::array<Sample, 64>;
std::size_t one(tensorbus::bus::Subscriber& subscriber, Samples& samples) {
  samples[0] = Sample();
  return subscriber.receive(samples[0], 10s) == Outcome::kDone ? 1 : 0;
}
std::size_t batch(tensorbus::bus::Subscriber& subscriber, Samples& samples) {
  std::size_t count = 0;
  (void)subscriber.receive_many(samples, count, 10s);
  return count;
}

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = Arguments::parse(count, values);
  const std::uint64_t messages = arguments.quick ? 200'000 : 1'000'000;
  Shared<Ring> ring;
  TwoProcesses both;
  {
    const tensorbus::bus::ParticipantRef participant =
        tensorbus::bus::make_participant(both.participant_options());
    for (int repetition = 0; repetition < arguments.repetitions(); ++repetition) {
      ring_rate(both, *ring, kRingTimes * messages, repetition);
      bus_rate(
          both, participant, "64 B loans", messages, repetition,
          [](tensorbus::bus::Publisher& publisher, std::uint64_t message) {
            tensorbus::bus::Loan loan = publisher.loan(kSmall);
            write_ticks(loan.data(), message);
            publisher.publish(std::move(loan));
          },
          one);
      std::array<std::byte, 64> bytes{};
      bus_rate(
          both, participant, "64 B copied", messages, repetition,
          [&](tensorbus::bus::Publisher& publisher, std::uint64_t message) {
            write_ticks(bytes.data(), message);
            publisher.publish(tensorbus::TensorView{bytes.data(), kSmall});
          },
          one);
      // A descriptor of 64 bytes, 8 of which are its head, as many as ride in the entry itself.
      std::array<std::byte, 56> packed{std::byte{0xc4}, std::byte{54}};  // MessagePack: binary
      tensorbus::Message fields;
      fields.fields = packed;
      const auto publish_fields = [&](tensorbus::bus::Publisher& publisher, std::uint64_t message) {
        write_ticks(packed.data() + 2, message);
        publisher.publish(fields);
      };
      bus_rate(both, participant, "64 B inline", messages, repetition, publish_fields, one);
      bus_rate(both, participant, "64 B inline, batched", messages, repetition, publish_fields,
               batch);
      rows_rate(both, participant, "64 B rows, 256 at once", kRowTimes * messages, repetition,
                kDepth, 256);
      rows_rate(both, participant, "64 B rows, 1024 at once, depth 16384", kRowTimes * messages,
                repetition, 16 * kDepth, 1024);
    }
  }
}
