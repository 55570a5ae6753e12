#include "tensorbus/memory/timeline.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/memory/device_watch.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/memfd.hpp"

namespace tensorbus::memory {
namespace {

using platform::CudaDriver;
using platform::CudaScope;
using platform::CudaStream;

constexpr std::size_t kLenders = 0;  // page
constexpr std::size_t kBorrowers = 1;
constexpr std::size_t kBytes = TimelinePages::kBytes;

platform::Fd verified(platform::Fd memfd) {
  platform::verify_sealed_memfd(memfd.get(), kBytes, "TIMELINE.memory");
  platform::verify_writable(memfd.get(), "TIMELINE.memory");
  return memfd;
}

}  // namespace

Timeline::Timeline(Peer borrower)
    : Timeline(platform::create_sealed_memfd("tensorbus-timeline", kBytes), kLenders,
               std::move(borrower)) {
  if (!platform::reserve_pages(memfd_.get(), 0, kBytes))
    throw Error(Code::kOutOfMemory, "the kernel has no memory for a timeline");
}

Timeline::Timeline(platform::Fd memfd, Peer lender)
    : Timeline(verified(std::move(memfd)), kBorrowers, std::move(lender)) {}

Timeline::Timeline(platform::Fd memfd, std::size_t own_page, Peer peer)
    : memfd_(std::move(memfd)),
      pages_(std::make_shared<TimelinePages>(memfd_, own_page, std::move(peer))) {
  DeviceWatch::add(pages_);
}

Timeline::~Timeline() {
  if (fork_generation_ != platform::fork_generation()) return;  // it is our parent's
  try {
    std::vector<Mark> last;
    for (const auto& [stream, slot] : slots_) last.push_back({slot.number, slot.value});
    pages_->end(std::move(last));
    DeviceWatch::wake();
  } catch (const std::bad_alloc&) {  // pages that stay are the lesser harm
  }
}

Timeline::Slot& Timeline::slot_of(const CudaStream& stream) {
  const auto found = slots_.find(stream);
  if (found != slots_.end()) return found->second;
  const Slot slot = slots_.size() < Mark::kSlots
                        ? Slot{static_cast<std::uint32_t>(slots_.size()), 0}
                        : slot_at_rest();
  return slots_.emplace(stream, slot).first->second;
}

// One whose stream has nothing under way, in place of that stream: its values go on.
Timeline::Slot Timeline::slot_at_rest() {
  const auto at_rest = std::find_if(slots_.begin(), slots_.end(), [this](const auto& item) {
    return reached_own({item.second.number, item.second.value});
  });
  if (at_rest == slots_.end())
    throw Error(Code::kUnsupported, "more than " + std::to_string(Mark::kSlots) +
                                        " streams at work publish or receive over one connection: "
                                        "use fewer, for example those of PyTorch's pool");
  const Slot slot = at_rest->second;
  slots_.erase(at_rest);
  return slot;
}

Mark Timeline::signal(const CudaStream& stream) {
  stream.require_usable("Publishing or letting go of CUDA memory");
  const CudaDriver& cuda = CudaDriver::get();
  const CudaScope scope(stream.device());
  // Held until it is enqueued: the values of a slot only grow.
  const std::lock_guard lock(mutex_);
  const platform::HostRegistration& memory = pages_->registered(stream.device());
  Slot& slot = slot_of(stream);
  cuda.check(cuda.StreamWriteValue64(stream.handle(), memory.address_of(&pages_->own(slot.number)),
                                     slot.value + 1, platform::cu::kWriteValueDefault),
             "cuStreamWriteValue64");
  return {slot.number, ++slot.value};
}

void Timeline::wait(const CudaStream& stream, Mark mark) {
  if (!reached(mark)) wait_at(pages_->theirs(mark.slot), stream, mark.value);
}

void Timeline::wait_for_own(const CudaStream& stream, Mark mark) {
  if (!reached_own(mark)) wait_at(pages_->own(mark.slot), stream, mark.value);
}

void Timeline::wait_at(const TimelinePages::Counter& counter, const CudaStream& stream,
                       std::uint64_t value) {
  stream.require_usable("Receiving CUDA memory");
  const CudaDriver& cuda = CudaDriver::get();
  const CudaScope scope(stream.device());
  const std::lock_guard lock(mutex_);
  const platform::HostRegistration& memory = pages_->registered(stream.device());
  cuda.check(cuda.StreamWaitValue64(stream.handle(), memory.address_of(&counter), value,
                                    platform::cu::kWaitValueGeq),
             "cuStreamWaitValue64");
}

void Timeline::keep_until_passed(std::shared_ptr<const void> what) {
  std::vector<Mark> last;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [stream, slot] : slots_) last.push_back({slot.number, slot.value});
  }
  pages_->keep_until_passed(std::move(last), std::move(what));
  DeviceWatch::wake();
}

void Timeline::keep_until(Mark theirs, std::shared_ptr<const void> what) {
  pages_->keep_until(theirs, std::move(what));
  DeviceWatch::wake();
}

}  // namespace tensorbus::memory
