#include "tensorbus/memory/timeline_events.hpp"

#include <optional>
#include <string>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::memory {

using platform::CudaDevice;
using platform::CudaEvent;
using platform::CudaStream;
using platform::ImportedEvent;

void TimelineEvents::record(std::uint32_t slot, const CudaStream& stream) {
  auto found = own_.find(slot);
  if (found == own_.end()) {
    CudaEvent event(stream.device(),
                    announce_ ? CudaEvent::For::kOtherProcesses : CudaEvent::For::kOurselves);
    if (announce_) announce_({slot, stream.device().uuid(), event.name()});
    found = own_.emplace(slot, std::move(event)).first;
  }
  found->second.record(stream);
}

void TimelineEvents::wait_for_own(std::uint32_t slot, const CudaStream& stream) const {
  const auto found = own_.find(slot);
  if (found != own_.end()) found->second.wait(stream);
}

void TimelineEvents::add(const NamedEvent& theirs) {
  if (theirs.slot >= Mark::kSlots)
    throw Error(Code::kProtocol, "TIMELINE_EVENT.slot: " + std::to_string(theirs.slot));
  const std::lock_guard lock(mutex_);
  if (!named_.emplace(theirs.slot, theirs).second)
    throw Error(Code::kProtocol, "TIMELINE_EVENT.slot: " + std::to_string(theirs.slot) + " twice");
}

bool TimelineEvents::wait_for_theirs(std::uint32_t slot, const CudaStream& stream) {
  const auto found = opened_->find(slot);
  const ImportedEvent* const event = found != opened_->end() ? found->second.get() : open(slot);
  if (event != nullptr) event->wait(stream);
  return event != nullptr;
}

// Once: what cannot be opened is remembered as null. What has not come yet is not.
const ImportedEvent* TimelineEvents::open(std::uint32_t slot) {
  std::optional<NamedEvent> named;
  {
    const std::lock_guard lock(mutex_);
    const auto found = named_.find(slot);
    if (found == named_.end()) return nullptr;
    named = found->second;
  }
  std::unique_ptr<const ImportedEvent> event;
  try {
    if (const CudaDevice* const device = CudaDevice::find(named->device))
      event = std::make_unique<const ImportedEvent>(*device, named->name);
  } catch (const Error&) {  // the host waits instead
  }
  return opened_->emplace(slot, std::move(event)).first->second.get();
}

}  // namespace tensorbus::memory
