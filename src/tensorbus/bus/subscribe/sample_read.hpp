#pragma once

#include <functional>
#include <memory>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/stats.hpp>

#include "tensorbus/bus/event_loop/completion.hpp"
#include "tensorbus/bus/session/acquired_leases.hpp"
#include "tensorbus/bus/session/lent_sample.hpp"
#include "tensorbus/bus/session/participant_context.hpp"
#include "tensorbus/bus/subscribe/receive_options.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"

namespace tensorbus::bus {

// Reads a sample that was lent by message, in the thread that needs it. This thread starts the GPU
// driver and maps GPU memory, so that the event loop does not wait for this. Requests copies, once,
// of tensors that this process cannot reach. Used by one thread.
class SampleRead {
 public:
  // `keeps`: the sample is in host memory and keeps `held`, which other threads may read, too.
  SampleRead(ParticipantContext& participant, LentRef held, Access access, bool keeps = false)
      : participant_(&participant),
        held_(std::move(held)),
        how_{access, {}, participant.copier},
        keeps_(keeps) {}

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

  ParticipantContext* participant_;
  LentRef held_;
  ReceiveOptions how_;
  bool keeps_;
  std::shared_ptr<Completion<AcquiredLeases>> copies_;
};

}  // namespace tensorbus::bus
