#include "tensorbus/memory/timeline.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <string>
#include <thread>
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
constexpr std::chrono::microseconds kShortestPause{20};  // while the host waits for a stream
constexpr std::chrono::microseconds kLongestPause{1000};

platform::Fd new_memory() {
  platform::Fd memfd = platform::create_memfd_of_fixed_size("tensorbus-timeline", kBytes);
  if (!platform::reserve_pages(memfd.get(), 0, kBytes))
    throw Error(Code::kOutOfMemory, "the kernel has no memory for a timeline");
  return memfd;
}

platform::Fd verified(platform::Fd memfd) {
  platform::verify_memfd_of_fixed_size(memfd.get(), kBytes, "TIMELINE.memory");
  platform::verify_writable(memfd.get(), "TIMELINE.memory");
  return memfd;
}

}  // namespace

Timeline::Timeline() : Timeline(new_memory(), kLenders, nullptr, false, nullptr) {}

Timeline::Timeline(Peer borrower, Announce announce)
    : Timeline(new_memory(), kLenders, std::move(borrower), true, std::move(announce)) {}

Timeline::Timeline(platform::Fd memfd, Peer lender)
    : Timeline(verified(std::move(memfd)), kBorrowers, std::move(lender), true, nullptr) {
  platform::seal_against_holes(memfd_.get(), "TIMELINE.memory");  // mapped now
}

Timeline::Timeline(platform::Fd memfd, std::size_t own_page, Peer peer, bool shared,
                   Announce announce)
    : memfd_(std::move(memfd)),
      pages_(std::make_shared<TimelinePages>(memfd_, own_page, std::move(peer), shared)),
      events_(std::move(announce)) {
  DeviceWatch::add(pages_);
}

Timeline::~Timeline() {
  if (fork_generation_ != platform::fork_generation()) return;  // it is our parent's
  try {
    std::vector<Mark> last;
    for (const auto& [stream, slot] : slots_) last.push_back({slot.number, slot.written});
    if (pages_->peer_is_dead())
      platform::abandon(events_.imports());
    else
      pages_->keep(events_.imports());
    pages_->end(std::move(last));
    DeviceWatch::wake();
  } catch (const std::bad_alloc&) {  // pages that stay are the lesser harm
  }
}

OrderBy Timeline::order_on(const CudaStream& stream) const {
  return order_ ? *order_ : order_of(stream.device());
}

Timeline::Slot& Timeline::slot_of(const CudaStream& stream) {
  const auto found = slots_.find(stream);
  if (found != slots_.end()) return found->second;
  const Slot slot = slots_.size() < Mark::kSlots ? Slot{static_cast<std::uint32_t>(slots_.size())}
                                                 : slot_at_rest(stream.device());
  pages_->used_by(slot.number, stream.device());
  return slots_.emplace(stream, slot).first->second;
}

// One whose stream has nothing under way, in place of that stream: its values go on.
Timeline::Slot Timeline::slot_at_rest(const platform::CudaDevice& device) {
  const auto at_rest = std::find_if(slots_.begin(), slots_.end(), [&](const auto& item) {
    return &item.first.device() == &device && reached_own({item.second.number, item.second.value});
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
  const OrderBy order = order_on(stream);
  const CudaScope scope(stream.device());
  stream.require_usable_in_scope("Publishing or letting go of CUDA memory");
  // Held until it is enqueued: the values of a slot only grow.
  const std::lock_guard lock(mutex_);
  Slot& slot = slot_of(stream);
  const Mark mark{slot.number, ++slot.value};  // not used again if it fails half way
  write(stream, mark, order);
  slot.written = mark.value;
  return mark;
}

namespace {

// What a host function writes in a stream's order. It touches nothing after its last store, since
// the pages may go then.
struct Written {
  TimelinePages::Counter& own;
  TimelinePages::Counter& passed;
  std::uint64_t value;
};

void write_on_host(void* argument) {
  const std::unique_ptr<const Written> written(static_cast<const Written*>(argument));
  // Release: pairs with the loads in TimelinePages::reached() and reached_own().
  written->own.store(written->value, std::memory_order_release);
  if (&written->passed != &written->own)
    written->passed.store(written->value, std::memory_order_release);
}

}  // namespace

// Ours alone comes last: when it is there, no operation refers to either page any more.
void Timeline::write(const CudaStream& stream, Mark mark, OrderBy order) {
  const CudaDriver& cuda = CudaDriver::get();
  if (order == OrderBy::kStreams) {
    const auto write_to = [&](const TimelinePages::Counter& counter) {
      stream.check(
          cuda.StreamWriteValue64(stream.handle(), pages_->address_of(counter, stream.device()),
                                  mark.value, platform::cu::kWriteValueDefault),
          "cuStreamWriteValue64");
    };
    write_to(pages_->own(mark.slot));
    if (pages_->shared()) write_to(pages_->passed(mark.slot));
    return;
  }
  if (!pages_->shared() || (order == OrderBy::kEvents && events_.are_announced()))
    events_.record(mark.slot, stream);
  auto written = std::make_unique<Written>(
      Written{pages_->own(mark.slot), pages_->passed(mark.slot), mark.value});
  stream.check(cuda.LaunchHostFunc(stream.handle(), write_on_host, written.get()),
               "cuLaunchHostFunc");
  (void)written.release();  // the stream's
}

void Timeline::wait(const CudaStream& stream, Mark mark) {
  if (reached(mark) || wait_in_stream(stream, mark)) return;
  // Its writer goes on, or it is dead, and whoever hears of that says it is reached.
  for (auto pause = kShortestPause; !reached(mark); pause = std::min(2 * pause, kLongestPause))
    std::this_thread::sleep_for(pause);
}

// False: the stream cannot.
bool Timeline::wait_in_stream(const CudaStream& stream, Mark mark) {
  const OrderBy order = order_on(stream);
  const CudaScope scope(stream.device());
  stream.require_usable_in_scope("Receiving CUDA memory");
  if (order == OrderBy::kHost) return false;
  const std::lock_guard lock(mutex_);
  if (order == OrderBy::kStreams) {
    wait_at(pages_->theirs(mark.slot), stream, mark.value);
    return true;
  }
  if (reached(mark)) return true;  // also if the peer has died: its events are left alone then
  return events_.wait_for_theirs(mark.slot, stream);
}

void Timeline::wait_for_own(const CudaStream& stream, Mark mark) {
  if (reached_own(mark)) return;
  const OrderBy order = order_on(stream);
  const CudaScope scope(stream.device());
  stream.require_usable_in_scope("Publishing CUDA memory");
  const std::lock_guard lock(mutex_);
  if (order == OrderBy::kStreams) return wait_at(pages_->own(mark.slot), stream, mark.value);
  events_.wait_for_own(mark.slot, stream);
}

void Timeline::wait_at(const TimelinePages::Counter& counter, const CudaStream& stream,
                       std::uint64_t value) {
  stream.check(CudaDriver::get().StreamWaitValue64(stream.handle(),
                                                   pages_->address_of(counter, stream.device()),
                                                   value, platform::cu::kWaitValueGeq),
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

void Timeline::keep_until_own(Mark ours, std::shared_ptr<const void> what) {
  pages_->keep_until_passed({ours}, std::move(what));
  DeviceWatch::wake();
}

void Timeline::keep_until(Mark theirs, std::shared_ptr<const void> what) {
  pages_->keep_until(theirs, std::move(what));
  DeviceWatch::wake();
}

}  // namespace tensorbus::memory
