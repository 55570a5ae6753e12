#pragma once

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

#include "harness/messages.hpp"
#include "harness/turns.hpp"

// What two processes can do without a bus, paced and timed as the bus is.

namespace bench {

// Half of the way of a cache line there and back: needs no clock that two cores share.
inline void line_round_trip(TwoProcesses& both, const Pace& pace, Rows& rows) {
  Line& there = both.stage().sent;
  Line& back = both.stage().answered;
  const auto wait = [](Line& line, std::uint64_t value) {
    while (line.word.load(std::memory_order_acquire) != value) {
    }
  };
  const std::uint64_t last = pace.warm_up + pace.messages;
  Histogram ticks;
  both.meet();
  if (both.is_sender()) {
    for (std::uint64_t message = 1; message <= last; ++message) {
      const std::uint64_t begin = ticks_before();
      there.word.store(message, std::memory_order_release);
      wait(back, message);
      const std::uint64_t end = ticks_after();
      if (message > pace.warm_up) ticks.add((end - begin) / 2);
    }
    rows.add("line, half a round trip", ticks);
  } else {
    for (std::uint64_t message = 1; message <= last; ++message) {
      wait(there, message);
      back.word.store(message, std::memory_order_release);
    }
  }
  both.meet();
}

struct WakeStage {
  Line sent;  // when, in ticks
  alignas(128) std::atomic<std::uint32_t> wake{0};
};

// The sender calls wake(); the receiver sleep(), until then.
template <typename Wake, typename Sleep>
void sleeping_one_way(TwoProcesses& both, WakeStage& stage, const char* name, const Pace& pace,
                      Rows& rows, Wake wake, Sleep sleep) {
  if (both.is_sender())
    return send_paced(
        both, pace, [] { return 0; },
        [&](int) {
          stage.sent.word.store(ticks_before(), std::memory_order_release);
          wake();
        });
  Histogram latency;
  receive_paced(both, pace, latency, [&](std::uint64_t) {
    sleep();
    const std::uint64_t now = ticks_after();
    return ticks_between(stage.sent.word.load(std::memory_order_acquire), now);
  });
  rows.add(name, latency);
}

inline void futex_one_way(TwoProcesses& both, WakeStage& stage, const Pace& pace, Rows& rows) {
  std::uint32_t before = stage.wake.load(std::memory_order_acquire);
  sleeping_one_way(
      both, stage, "futex", pace, rows,
      [&] {
        stage.wake.fetch_add(1, std::memory_order_release);
        ::syscall(SYS_futex, &stage.wake, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
      },
      [&] {
        while (stage.wake.load(std::memory_order_acquire) == before)
          ::syscall(SYS_futex, &stage.wake, FUTEX_WAIT, before, nullptr, nullptr, 0);
        ++before;
      });
}

// `event` is from before the fork.
inline void eventfd_one_way(TwoProcesses& both, WakeStage& stage, int event, const Pace& pace,
                            Rows& rows) {
  sleeping_one_way(
      both, stage, "eventfd", pace, rows, [&] { ::eventfd_write(event, 1); },
      [&] {
        eventfd_t count = 0;
        ::eventfd_read(event, &count);
      });
}

}  // namespace bench
