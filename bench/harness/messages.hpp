#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "harness/histogram.hpp"
#include "harness/two_processes.hpp"
#include "tensorbus/bus/publisher.hpp"
#include "tensorbus/bus/subscriber.hpp"

namespace bench {

// 24.9 MB: a full-HD image of float32.
inline const tensorbus::Layout kImage =
    tensorbus::Layout::contiguous(tensorbus::DType::kFloat32, {1080, 1920, 3});
inline const tensorbus::Layout kSmall =
    tensorbus::Layout::contiguous(tensorbus::DType::kUInt8, {64});

// A message may carry the time at which it was sent in its first bytes.
inline void write_ticks(std::byte* to, std::uint64_t ticks) noexcept {
  std::memcpy(to, &ticks, sizeof ticks);
}
inline std::uint64_t read_ticks(const std::byte* from) noexcept {
  return *reinterpret_cast<const volatile std::uint64_t*>(from);
}

// A loan that is written, and on its way to memory or not, before the clock starts.
inline tensorbus::bus::Loan written_loan(tensorbus::bus::Publisher& publisher,
                                         const tensorbus::Layout& layout) {
  tensorbus::bus::Loan loan = publisher.loan(layout);
  loan.data()[0] = std::byte{1};
  return loan;
}

inline void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

// How one row sends: one message at a time, so that it is latency that is measured.
struct Pace {
  std::uint64_t messages = 0;
  std::uint64_t warm_up = 0;   // messages before them
  std::uint64_t pause_ns = 0;  // from "the receiver has given all back" to the next message

  // Spread out, so that no period of the machine's falls in step with ours.
  std::uint64_t pause_before(std::uint64_t message) const noexcept {
    return pause_ns + message % 13 * (pause_ns / 16);
  }
};

// The sender's half of a row: prepare() is off the path, send(prepared) is on it.
template <typename Prepare, typename Send>
void send_paced(TwoProcesses& both, const Pace& pace, Prepare prepare, Send send) {
  both.meet();
  for (std::uint64_t message = 1; message <= pace.warm_up + pace.messages; ++message) {
    auto prepared = prepare();
    spin_for(pace.pause_before(message));
    send(prepared);
    both.wait_for_ack(message);
  }
  both.meet();
}

// The receiver's half: take() returns the message's latency in ticks.
template <typename Take>
void receive_paced(TwoProcesses& both, const Pace& pace, Histogram& latency, Take take) {
  both.ack(0);
  both.meet();
  for (std::uint64_t message = 1; message <= pace.warm_up + pace.messages; ++message) {
    const std::uint64_t ticks = take(message);
    both.ack(message);
    if (message > pace.warm_up) latency.add(ticks);
  }
  both.meet();
}

// Tells the receiver beside the message when it was sent. So its bytes can be there before the
// clock starts, as those of a camera are, and stay where they are if nobody wants them: a stamp in
// them would have its cache line fetched for writing on the way. One for each row, at both ends,
// made before they meet.
class SentAt {
 public:
  explicit SentAt(TwoProcesses& both) : line_(both.stage().sent_at), last_(now()) {}

  // By the sender, when its call has returned.
  void tell(std::uint64_t ticks) noexcept { line_.word.store(ticks, std::memory_order_release); }
  // By the receiver, once for each message.
  std::uint64_t hear() noexcept {
    const std::uint64_t before = last_;
    while ((last_ = now()) == before) relax();
    return last_;
  }

 private:
  std::uint64_t now() const noexcept { return line_.word.load(std::memory_order_acquire); }

  Line& line_;
  std::uint64_t last_;
};

// Time stamps of two cores may differ by a few ticks.
inline std::uint64_t ticks_between(std::uint64_t sent, std::uint64_t now) noexcept {
  return now > sent ? now - sent : 0;
}

}  // namespace bench
