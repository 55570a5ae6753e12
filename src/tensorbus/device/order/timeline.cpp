#include "tensorbus/device/order/timeline.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tensorbus/device/order/deferred_releaser.hpp"
#include "tensorbus/device/order/device_watch.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/files/memfd.hpp"

namespace tensorbus::device {
namespace {

constexpr std::size_t kLenders = 0;  // page
constexpr std::size_t kBorrowers = 1;
constexpr std::size_t kTimelineBytes = TimelinePages::kBytes;
constexpr std::chrono::microseconds kShortestPause{20};  // of the host, while it waits for a stream
constexpr std::chrono::microseconds kLongestPause{1000};

platform::Fd new_memory() {
  platform::Fd memfd = platform::create_memfd_of_fixed_size("tensorbus-timeline", kTimelineBytes);
  if (!platform::reserve_pages(memfd.get(), 0, kTimelineBytes))
    throw Error(Code::kOutOfMemory, "the kernel has no memory for a timeline");
  return memfd;
}

platform::Fd verified(platform::Fd memfd) {
  platform::verify_memfd_of_fixed_size(memfd.get(), kTimelineBytes, "TIMELINE.memory");
  platform::verify_writable(memfd.get(), "TIMELINE.memory");
  return memfd;
}

}  // namespace

Timeline::Timeline() : Timeline(new_memory(), kLenders, nullptr, false) {}

Timeline::Timeline(Peer borrower) : Timeline(new_memory(), kLenders, std::move(borrower), true) {}

Timeline::Timeline(platform::Fd memfd, Peer lender)
    : Timeline(verified(std::move(memfd)), kBorrowers, std::move(lender), true) {
  platform::seal_against_holes(memfd_.get(), "TIMELINE.memory");  // now mapped
}

Timeline::Timeline(platform::Fd memfd, std::size_t own_page, Peer peer, bool shared)
    : memfd_(std::move(memfd)),
      pages_(std::make_shared<TimelinePages>(memfd_, own_page, std::move(peer), shared)) {
  DeviceWatch::add(pages_);
}

Timeline::~Timeline() {
  if (fork_generation_ != platform::fork_generation()) return;  // it belongs to the parent
  try {
    std::vector<Mark> last;
    for (const auto& [stream, slot] : slots_) last.push_back({slot.number, slot.written});
    pages_->end(std::move(last));
    DeviceWatch::wake();
  } catch (const std::bad_alloc&) {  // the pages are then kept forever, which is safe
  }
  pages_.reset();
  DeferredReleaser::let_go(std::move(last_));  // they end now if DeviceWatch has released them
}

OrderBy Timeline::order_on(const GpuStream& stream) const {
  return order_ ? *order_ : order_of(stream.device());
}

Timeline::Slot& Timeline::slot_of(const GpuStream& stream) {
  const auto found = slots_.find(stream);
  if (found != slots_.end()) return found->second;
  const Slot slot = slots_.size() < Mark::kSlots ? Slot{static_cast<std::uint32_t>(slots_.size())}
                                                 : slot_at_rest(stream.device());
  pages_->used_by(slot.number, stream.device());
  return slots_.emplace(stream, slot).first->second;
}

// Takes over the slot of a stream that has no work; the values of the slot continue to grow.
Timeline::Slot Timeline::slot_at_rest(const Gpu& device) {
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

Mark Timeline::signal(const GpuStream& stream) {
  const OrderBy order = order_on(stream);
  const GpuScope scope(stream.device());
  stream.require_usable_in_scope("Publishing or releasing GPU memory");
  // Held until the mark is enqueued: the values of a slot only grow.
  const platform::MutexLock lock(mutex_);
  Slot& slot = slot_of(stream);
  const Mark mark{slot.number, ++slot.value};  // not reused if this fails
  write(stream, mark, order);
  slot.written = mark.value;
  return mark;
}

namespace {

// The argument of write_on_host(), which runs in the order of a stream. After its last store the
// function accesses nothing, because the pages may then be freed.
struct Written {
  TimelinePages::Counter& own;
  TimelinePages::Counter& passed;
  std::uint64_t value;
};

void write_on_host(void* argument) {
  const std::unique_ptr<const Written> written(static_cast<const Written*>(argument));
  written->own.reach(written->value);
  if (&written->passed != &written->own) written->passed.reach(written->value);
}

}  // namespace

// Writes the private counter last: after that, no operation refers to either page.
void Timeline::write(const GpuStream& stream, Mark mark, OrderBy order) {
  if (order == OrderBy::kStreams) {
    const auto write_to = [&](const TimelinePages::Counter& counter) {
      stream.write(pages_->address_of(counter, stream.device()), mark.value);
    };
    write_to(pages_->own(mark.slot));
    if (pages_->shared()) write_to(pages_->passed(mark.slot));
    return;
  }
  if (!pages_->shared()) record(mark.slot, stream);
  auto written = std::make_unique<Written>(
      Written{pages_->own(mark.slot), pages_->passed(mark.slot), mark.value});
  stream.call(write_on_host, written.get());
  (void)written.release();  // now owned by the stream
}

void Timeline::record(std::uint32_t slot, const GpuStream& stream) {
  events_.try_emplace(slot, stream.device()).first->second.record(stream);
}

void Timeline::wait(const GpuStream& stream, Mark mark) {
  stream.require_usable("Receiving GPU memory");  // even if reached: the stream must signal later
  if (reached(mark) || wait_in_stream(stream, mark)) return;
  // The loop ends: the writer reaches the mark, or DeviceWatch marks it as reached when the writer
  // dies.
  for (auto pause = kShortestPause; !reached(mark); pause = std::min(2 * pause, kLongestPause))
    std::this_thread::sleep_for(pause);
}

// Returns false if the stream cannot wait.
bool Timeline::wait_in_stream(const GpuStream& stream, Mark mark) {
  const OrderBy order = order_on(stream);
  if (order == OrderBy::kHost) return false;
  const GpuScope scope(stream.device());
  const platform::MutexLock lock(mutex_);
  wait_at(pages_->theirs(mark.slot), stream, mark.value);
  return true;
}

void Timeline::wait_for_own(const GpuStream& stream, Mark mark) {
  if (reached_own(mark)) return;
  const OrderBy order = order_on(stream);
  const GpuScope scope(stream.device());
  stream.require_usable_in_scope("Publishing GPU memory");
  const platform::MutexLock lock(mutex_);
  if (order == OrderBy::kStreams) return wait_at(pages_->own(mark.slot), stream, mark.value);
  if (const auto found = events_.find(mark.slot); found != events_.end())
    found->second.wait(stream);
}

void Timeline::wait_at(const TimelinePages::Counter& counter, const GpuStream& stream,
                       std::uint64_t value) {
  stream.wait_for(pages_->address_of(counter, stream.device()), value);
}

void Timeline::keep_until_passed(std::shared_ptr<const void> what) {
  std::vector<Mark> last;
  {
    const platform::MutexLock lock(mutex_);
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

}  // namespace tensorbus::device
