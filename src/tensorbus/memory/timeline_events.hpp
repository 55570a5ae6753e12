#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "tensorbus/memory/mark.hpp"
#include "tensorbus/platform/cuda_event.hpp"

namespace tensorbus::memory {

// The event of a slot, as its owner names it to the peer.
struct NamedEvent {
  std::uint32_t slot = 0;
  platform::cu::Uuid device;
  platform::cu::IpcEventHandle name;
};

// The events of a timeline, one for each slot, for streams that cannot wait for its counters: ours,
// recorded with each mark, and those that the peer has named. What is enqueued needs the context of
// the stream's device, and is for one thread at a time.
class TimelineEvents {
 public:
  // `announce` is told of each of ours before it is recorded; empty: they are for ourselves.
  using Announce = std::function<void(const NamedEvent&)>;
  explicit TimelineEvents(Announce announce) : announce_(std::move(announce)) {}

  bool are_announced() const noexcept { return announce_ != nullptr; }
  void record(std::uint32_t slot, const platform::CudaStream& stream);
  // For what was recorded last in the slot; nothing if nothing was.
  void wait_for_own(std::uint32_t slot, const platform::CudaStream& stream) const;

  // Any thread. Throws Error(kProtocol) for a slot that there is not, or that has one.
  void add(const NamedEvent& theirs);
  // False if the peer has named none, or it cannot be opened here.
  bool wait_for_theirs(std::uint32_t slot, const platform::CudaStream& stream);
  // What our streams wait for, to be kept until they have.
  std::shared_ptr<const void> imports() const noexcept { return opened_; }

 private:
  const platform::ImportedEvent* open(std::uint32_t slot);

  using Opened = std::map<std::uint32_t, std::unique_ptr<const platform::ImportedEvent>>;

  const Announce announce_;
  std::map<std::uint32_t, platform::CudaEvent> own_;
  const std::shared_ptr<Opened> opened_ = std::make_shared<Opened>();
  std::mutex mutex_;
  std::map<std::uint32_t, NamedEvent> named_;
};

}  // namespace tensorbus::memory
