// A million messages between two processes: does memory, or the number of descriptors, grow?

#include <array>

#include "harness/messages.hpp"
#include "harness/process_use.hpp"
#include "harness/report.hpp"

namespace {

using namespace bench;
using namespace std::chrono_literals;
using tensorbus::Outcome;
using tensorbus::bus::Sample;

// So many wait at most. All the memory that they take is touched before anything is told: how far
// the receiver once falls behind is chance.
constexpr std::uint32_t kDepth = 256;

// The first is the warm-up; what is told after it must not grow.
constexpr std::array<std::uint64_t, 5> kPortions{100'000, 250'000, 250'000, 250'000, 250'000};

void report_use(const char* name, int when, const tensorbus::bus::ParticipantRef& participant) {
  const tensorbus::ArenaUse arena = participant->memory_use();
  report(name, when,
         {{"rss_bytes", rss_bytes()},
          {"pss_bytes", pss_bytes()},
          {"descriptors", open_descriptors()},
          {"arena_used_bytes", static_cast<double>(arena.used_bytes)},
          {"arena_reserved_bytes", static_cast<double>(arena.reserved_bytes)},
          {"arena_segments", static_cast<double>(arena.segments)},
          {"arena_blocks", static_cast<double>(arena.blocks)}});
}

void publish(tensorbus::bus::Publisher& publisher, std::uint64_t messages) {
  for (std::uint64_t message = 1; message <= messages; ++message) {
    tensorbus::bus::Loan loan = publisher.loan(kSmall);
    write_ticks(loan.data(), message);
    publisher.publish(std::move(loan));
  }
}

void take(tensorbus::bus::Subscriber& subscriber, std::uint64_t messages) {
  for (std::uint64_t message = 1; message <= messages; ++message) {
    Sample sample;
    require(subscriber.receive(sample, 10s) == Outcome::kDone, "no sample came");
    require(read_ticks(sample.tensor().data()) == message, "a sample was lost");
  }
}

void send(TwoProcesses& both, tensorbus::bus::Publisher& publisher, std::uint64_t messages) {
  publish(publisher, messages);
  both.wait_for_ack(messages);
  (void)publisher.stats();  // takes back what came back
}

void receive(TwoProcesses& both, tensorbus::bus::Subscriber& subscriber, std::uint64_t messages) {
  take(subscriber, messages);
  both.ack(messages);
}

}  // namespace

int main(int, char**) {
  TwoProcesses both;
  {
    const tensorbus::bus::ParticipantRef participant =
        tensorbus::bus::make_participant(both.participant_options());
    const char* name = both.is_sender() ? "sender" : "receiver";
    const auto run = [&](auto& endpoint, auto half) {
      int when = 0;
      (void)rss_bytes();  // the first call touches pages of its own
      (void)open_descriptors();
      for (const std::uint64_t messages : kPortions) {
        if (!both.is_sender()) both.ack(0);
        both.meet();
        half(both, endpoint, messages);
        both.meet();
        report_use(name, when++, participant);
      }
    };
    if (both.is_sender()) {
      tensorbus::bus::Publisher publisher("soak", {.depth = kDepth, .reliable = true}, participant);
      require(publisher.wait_for_subscribers(1, 10s) == Outcome::kDone, "no subscriber came");
      publish(publisher, kDepth);
      both.meet();
      run(publisher, send);
      both.meet();
    } else {
      tensorbus::bus::Subscriber subscriber("soak", {}, participant);
      require(subscriber.wait_for_publishers(1, 10s) == Outcome::kDone, "no publisher came");
      both.meet();
      take(subscriber, kDepth);
      run(subscriber, receive);
      both.meet();
    }
  }
}
