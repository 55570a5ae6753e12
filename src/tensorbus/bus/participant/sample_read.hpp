#pragma once

#include <functional>
#include <memory>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/stats.hpp>

#include "tensorbus/bus/event_loop/completion.hpp"
#include "tensorbus/bus/participant/participant_core.hpp"
#include "tensorbus/bus/session/acquired_leases.hpp"
#include "tensorbus/bus/session/lent_sample.hpp"
#include "tensorbus/bus/subscribe/receive_options.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"

namespace tensorbus::bus {

// Reads a sample that was lent by message, in the thread that needs it. This thread starts the
// driver and maps GPU memory, so that the event loop does not wait for it. Requests copies, once,
// of tensors that this process cannot reach. For one thread.
class SampleRead {
 public:
  // `keeps`: the sample keeps `held`, which other threads may read, too; it is in host memory.
  SampleRead(ParticipantCore& core, LentRef held, Access access, bool keeps = false)
      : core_(&core), held_(std::move(held)), how_{access, {}, core.copier()}, keeps_(keeps) {}

  // Returns kDone; kTimedOut or kInterrupted if copies have not come yet. Throws Error(kClosed) if
  // the sample is half written or copies are not available; Error(kProtocol). After
  // Error(kOutOfMemory) or std::bad_alloc the sample is still held.
  Outcome read(Sample& sample, const platform::StopCondition& stop);
  // After kTimedOut: calls `tell` once, when the copies have come; at once if they are here.
  void on_ready(std::function<void()> tell) { copies_->on_done(std::move(tell)); }
  // Gives up and returns the unread sample; null if it was read.
  LentRef give_up() noexcept;

 private:
  bool read_now(Sample& sample);
  void ask_for_copies();

  ParticipantCore* core_;
  LentRef held_;
  ReceiveOptions how_;
  bool keeps_;
  std::shared_ptr<Completion<AcquiredLeases>> copies_;
};

}  // namespace tensorbus::bus
