#pragma once

#include <array>

#include "harness/cuda_driver.hpp"
#include "harness/messages.hpp"
#include "harness/report.hpp"

namespace bench {

struct IpcEventHandle {
  std::array<std::byte, 64> bytes{};
};

// What each of the two exports; made before they part.
struct Exported {
  struct End {
    cu::IpcMemHandle memory;
    IpcEventHandle event;
  };
  std::array<End, 2> ends{};
};

// One end of what programs do by hand with CUDA IPC: each exports an allocation of 24.9 MB, and a
// message is a word in shared memory, which says that its sender's allocation has new contents. The
// allocations go with the processes, so that neither frees what the other has open.
class ByHand {
 public:
  ByHand(TwoProcesses& both, Exported& exported)
      : both_(both),
        mine_(exported.ends[both.is_sender() ? 0 : 1]),
        others_(exported.ends[both.is_sender() ? 1 : 0]) {
    cu::DevicePtr memory = 0;
    cuda_.check(cuda_.MemAlloc(&memory, kImage.packed_bytes()), "cuMemAlloc");
    cuda_.check(cuda_.IpcGetMemHandle(&mine_.memory, memory), "cuIpcGetMemHandle");
    cuda_.find(export_event_, "cuIpcGetEventHandle");
    cuda_.find(open_event_, "cuIpcOpenEventHandle");
    if (has_events()) {
      constexpr unsigned kFlags = cu::kEventDisableTiming | kInterprocess;
      cuda_.check(cuda_.EventCreate(&event_, kFlags), "cuEventCreate");
      cuda_.check(export_event_(&mine_.event, event_), "cuIpcGetEventHandle");
    }
    both_.meet();
    if (has_events())
      cuda_.check(open_event_(&others_event_, others_.event), "cuIpcOpenEventHandle");
  }

  void run(const Pace& pace, int repetition) {
    const Pace few{.messages = pace.messages / 20, .warm_up = 10, .pause_ns = pace.pause_ns};
    const auto synchronize = [&] { cuda_.synchronize(stream_); };
    row("by hand, opened for each message", few, repetition, synchronize, [&] { close(open()); });
    const cu::DevicePtr opened = open();
    row("by hand, stream synchronised", pace, repetition, synchronize, [] {});
    if (has_events()) {
      row(
          kWithEvents, pace, repetition,
          [&] { cuda_.check(cuda_.EventRecord(event_, stream_), "cuEventRecord"); },
          [&] {
            cuda_.check(cuda_.StreamWaitEvent(stream_, others_event_, 0), "cuStreamWaitEvent");
          });
      cuda_.synchronize(stream_);
    } else if (both_.is_sender() && repetition == 0) {
      report_absent(kWithEvents, "this driver has no events between processes");
    }
    close(opened);
    both_.meet();
  }

 private:
  static constexpr auto kWithEvents = "by hand, events";
  static constexpr unsigned kInterprocess = 4;

  // ready() before a message goes, taken() when one has come, at both ends.
  template <typename Ready, typename Taken>
  void row(const char* name, const Pace& pace, int repetition, Ready ready, Taken taken) {
    auto& sent = both_.stage().sent.word;
    auto& answered = both_.stage().answered.word;
    Histogram trips;
    if (both_.is_sender()) {
      sent.store(0);
      std::uint64_t message = 0;
      send_paced(
          both_, pace, [&] { return ++message; },
          [&](std::uint64_t number) {
            const std::uint64_t begin = ticks_before();
            ready();
            sent.store(number, std::memory_order_release);
            while (answered.load(std::memory_order_acquire) != number) relax();
            taken();
            const std::uint64_t end = ticks_after();
            if (number > pace.warm_up) trips.add(end - begin);
          });
      report(name, repetition, trips);
    } else {
      answered.store(0);
      receive_paced(both_, pace, trips, [&](std::uint64_t number) {
        while (sent.load(std::memory_order_acquire) != number) relax();
        taken();
        ready();
        answered.store(number, std::memory_order_release);
        return 0;
      });
    }
  }

  bool has_events() const noexcept { return export_event_ != nullptr && open_event_ != nullptr; }
  cu::DevicePtr open() const {
    cu::DevicePtr opened = 0;
    cuda_.check(cuda_.IpcOpenMemHandle(&opened, others_.memory, cu::kIpcLazyPeerAccess),
                "cuIpcOpenMemHandle");
    return opened;
  }
  void close(cu::DevicePtr opened) const {
    cuda_.check(cuda_.IpcCloseMemHandle(opened), "cuIpcCloseMemHandle");
  }

  TwoProcesses& both_;
  Exported::End& mine_;
  const Exported::End& others_;
  const CudaDriver cuda_;
  const cu::Stream stream_ = cuda_.make_stream();
  // The library has no use for these.
  cu::Result (*export_event_)(IpcEventHandle*, cu::Event) = nullptr;
  cu::Result (*open_event_)(cu::Event*, IpcEventHandle) = nullptr;
  cu::Event event_ = nullptr;
  cu::Event others_event_ = nullptr;
};

}  // namespace bench
