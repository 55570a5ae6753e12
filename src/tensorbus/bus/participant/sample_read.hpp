#pragma once

#include <functional>
#include <memory>
#include <tensorbus/options.hpp>
#include <tensorbus/stats.hpp>

#include "tensorbus/bus/event_loop/completion.hpp"
#include "tensorbus/bus/participant/participant_core.hpp"
#include "tensorbus/bus/session/acquired_leases.hpp"
#include "tensorbus/bus/session/lent_sample.hpp"
#include "tensorbus/bus/subscribe/receive_options.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"

namespace tensorbus::bus {

// Reads what was lent by message in the thread that wants it: so that thread is the one that
// starts the driver and maps memory of a GPU, and the bus goes on meanwhile. Of what this process
// cannot reach, copies are asked for, once. For one thread.
class SampleRead {
 public:
  SampleRead(ParticipantCore& core, LentRef held, Access access)
      : core_(&core), held_(std::move(held)), how_{access, {}, core.copier()} {}

  // kDone; else kTimedOut or kInterrupted: copies have not come yet. Throws Error(kClosed) if it is
  // half written, or copies cannot be had; Error(kProtocol); after Error(kOutOfMemory) or
  // std::bad_alloc it is held still.
  Outcome read(Sample& sample, const platform::StopCondition& stop);
  // After kTimedOut: called once when another read() will not say so, at once if that is now.
  void on_ready(std::function<void()> tell) { copies_->on_done(std::move(tell)); }
  // What nobody will read any more; null if it was read.
  LentRef give_up() noexcept;

 private:
  bool read_now(Sample& sample);
  void ask_for_copies();

  ParticipantCore* core_;
  LentRef held_;
  ReceiveOptions how_;
  std::shared_ptr<Completion<AcquiredLeases>> copies_;
};

}  // namespace tensorbus::bus
