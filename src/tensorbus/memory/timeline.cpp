#include "tensorbus/memory/timeline.hpp"

#include <iterator>
#include <list>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/mapping.hpp"
#include "tensorbus/platform/memfd.hpp"

namespace tensorbus::memory {
namespace {

using platform::CudaDriver;
using platform::CudaScope;
using platform::CudaStream;

constexpr std::size_t kLenders = 0;  // page
constexpr std::size_t kBorrowers = 1;
// More than any mark: GPUs compare by the sign of the difference.
constexpr std::uint64_t kReleased = std::uint64_t{1} << 62;

platform::Fd verified(platform::Fd memfd) {
  platform::verify_sealed_memfd(memfd.get(), Timeline::kBytes, "TIMELINE.memory");
  platform::verify_writable(memfd.get(), "TIMELINE.memory");
  return memfd;
}

}  // namespace

Mark Mark::unpack(std::uint64_t packed) {
  const Mark mark = of(packed);
  if (mark.slot >= Timeline::kSlots || (mark.value == 0 && mark.slot != 0))
    throw Error(Code::kProtocol, "timeline: there is no mark " + std::to_string(packed));
  return mark;
}

// What streams write to and wait on. Outlives the timeline for as long as they may.
struct Timeline::Memory {
  Memory(const platform::Fd& memfd, std::size_t own_page)
      : mapping(memfd.get(), kBytes, platform::Mapping::Access::kReadWrite),
        own(page(own_page)),
        theirs(page(1 - own_page)) {}

  std::span<Counter> page(std::size_t index) const noexcept {
    return {reinterpret_cast<Counter*>(mapping.data()) + index * kSlots, kSlots};
  }
  // Under the timeline's mutex, as are the others.
  const platform::HostRegistration& registered(const platform::CudaDevice& device) {
    if (!registration) registration.emplace(device, mapping);
    return *registration;
  }
  bool reached(Mark ours) const noexcept {
    return own[ours.slot].load(std::memory_order_acquire) >= ours.value;
  }
  bool done_with() noexcept {
    std::erase_if(last, [this](Mark mark) { return reached(mark); });
    return last.empty();
  }

  platform::Mapping mapping;
  std::optional<platform::HostRegistration> registration;
  std::span<Counter> own;
  std::span<Counter> theirs;
  std::vector<std::shared_ptr<const void>> kept;
  std::vector<Mark> last;  // of each of our streams; has room for all
};

namespace {

// Memories of timelines that have ended. Never destroyed: a process that exits leaves them alone.
template <typename Memory>
struct Lingering {
  std::mutex mutex;
  std::list<std::unique_ptr<Memory>> memories;
};

}  // namespace

Timeline::Timeline()
    : Timeline(platform::create_sealed_memfd("tensorbus-timeline", kBytes), kLenders) {
  if (!platform::reserve_pages(memfd_.get(), 0, kBytes))
    throw Error(Code::kOutOfMemory, "the kernel has no memory for a timeline");
}

Timeline::Timeline(platform::Fd memfd) : Timeline(verified(std::move(memfd)), kBorrowers) {}

Timeline::Timeline(platform::Fd memfd, std::size_t own_page)
    : memfd_(std::move(memfd)), memory_(std::make_unique<Memory>(memfd_, own_page)) {
  memory_->last.reserve(kSlots);
  sweep();
}

Timeline::~Timeline() {
  for (const auto& [stream, slot] : slots_) memory_->last.push_back({slot.number, slot.value});
  sweep(std::move(memory_));
}

void Timeline::sweep() noexcept { sweep(nullptr); }

void Timeline::sweep(std::unique_ptr<Memory> ended) noexcept {
  static auto& lingering = *new Lingering<Memory>;
  std::list<std::unique_ptr<Memory>> done;  // goes without our mutex
  const std::lock_guard lock(lingering.mutex);
  try {
    if (ended) lingering.memories.push_back(std::move(ended));
  } catch (const std::bad_alloc&) {
    (void)ended.release();  // a page that stays is the lesser harm
  }
  for (auto at = lingering.memories.begin(); at != lingering.memories.end();) {
    const auto next = std::next(at);
    if ((*at)->done_with()) done.splice(done.end(), lingering.memories, at);
    at = next;
  }
}

Timeline::Slot& Timeline::slot_of(const CudaStream& stream) {
  const auto number = static_cast<std::uint32_t>(slots_.size());
  const auto [at, fresh] = slots_.try_emplace(stream, Slot{number, 0});
  if (fresh && number == kSlots) {
    slots_.erase(at);
    throw Error(Code::kUnsupported, "more than " + std::to_string(kSlots) +
                                        " streams publish or receive over one connection: use "
                                        "fewer, for example those of PyTorch's pool");
  }
  return at->second;
}

Mark Timeline::signal(const CudaStream& stream) {
  stream.require_not_capturing("Publishing or letting go of CUDA memory");
  const CudaDriver& cuda = CudaDriver::get();
  const CudaScope scope(stream.device());
  // Held until it is enqueued: the values of a slot only grow.
  const std::lock_guard lock(mutex_);
  const platform::HostRegistration& memory = memory_->registered(stream.device());
  Slot& slot = slot_of(stream);
  cuda.check(cuda.StreamWriteValue64(stream.handle(), memory.address_of(&memory_->own[slot.number]),
                                     slot.value + 1, platform::cu::kWriteValueDefault),
             "cuStreamWriteValue64");
  return {slot.number, ++slot.value};
}

void Timeline::wait(const CudaStream& stream, Mark mark) {
  if (!reached(mark)) wait_at(memory_->theirs[mark.slot], stream, mark.value);
}

void Timeline::wait_for_own(const CudaStream& stream, Mark mark) {
  if (!reached_own(mark)) wait_at(memory_->own[mark.slot], stream, mark.value);
}

void Timeline::wait_at(const Counter& counter, const CudaStream& stream, std::uint64_t value) {
  stream.require_not_capturing("Receiving CUDA memory");
  const CudaDriver& cuda = CudaDriver::get();
  const CudaScope scope(stream.device());
  const std::lock_guard lock(mutex_);
  const platform::HostRegistration& memory = memory_->registered(stream.device());
  cuda.check(cuda.StreamWaitValue64(stream.handle(), memory.address_of(&counter), value,
                                    platform::cu::kWaitValueGeq),
             "cuStreamWaitValue64");
}

// Acquire: pairs with the write by the peer's GPU, which follows its earlier writes.
bool Timeline::reached(Mark mark) const noexcept {
  return !mark || memory_->theirs[mark.slot].load(std::memory_order_acquire) >= mark.value;
}

bool Timeline::reached_own(Mark mark) const noexcept { return !mark || memory_->reached(mark); }

void Timeline::keep(std::shared_ptr<const void> what) {
  const std::lock_guard lock(mutex_);
  memory_->kept.push_back(std::move(what));
}

void Timeline::peer_died() noexcept {
  const std::lock_guard lock(mutex_);
  if (peer_died_.load(std::memory_order_relaxed)) return;
  const auto counters = memory_->theirs;
  // Exchanged, not read and written: nobody but us writes them now, other than somebody who lies.
  for (std::size_t i = 0; i < kSlots; ++i)
    at_death_[i] = counters[i].exchange(kReleased, std::memory_order_acq_rel);
  // Release: pairs with the load in failed(), which reads at_death_.
  peer_died_.store(true, std::memory_order_release);
}

bool Timeline::failed(Mark mark) const noexcept {
  return mark && peer_died_.load(std::memory_order_acquire) && at_death_[mark.slot] < mark.value;
}

}  // namespace tensorbus::memory
