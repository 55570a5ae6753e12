#include "tensorbus/device/memory/device_arena.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "tensorbus/device/order/deferred_releaser.hpp"
#include "tensorbus/platform/check.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/kill_point.hpp"

namespace tensorbus::device {
namespace {

std::size_t rounded(std::size_t bytes, std::size_t step) {
  return (std::max<std::size_t>(bytes, 1) + step - 1) / step * step;
}

DeviceArenaOptions completed(DeviceArenaOptions options, const Gpu& device) {
  if (options.budget_bytes == 0) options.budget_bytes = device.total_bytes() / 2;
  return options;
}

}  // namespace

std::shared_ptr<DeviceArena> DeviceArena::create(const Gpu& device,
                                                 const DeviceArenaOptions& options,
                                                 std::shared_ptr<WriteMarks> marks) {
  return std::shared_ptr<DeviceArena>(
      new DeviceArena(device, completed(options, device), std::move(marks)));
}

DeviceArena::DeviceArena(const Gpu& device, const DeviceArenaOptions& options,
                         std::shared_ptr<WriteMarks> marks)
    : device_(device),
      options_(options),
      granularity_(gpu_granularity(device)),
      marks_(std::move(marks)) {}

DeviceArena::~DeviceArena() {
  for (const Rested& rested : rested_)
    if (!marks_->whole(rested.write_mark))
      marks_->keep(segments_.at(rested.taken.extent.segment).mapping);
}

memory::BlockRef DeviceArena::allocate(std::size_t bytes, memory::Grant most) {
  const std::size_t wanted = rounded(bytes, memory::kBlockAlignment);
  memory::LivingBlocks::Room room;
  const platform::MutexLock lock(mutex_);
  rested_.reserve(rested_.size() + blocks_.count() + 1);
  wake_rested();
  memory::FreeExtents& free = free_of(most);
  std::optional<memory::FreeExtents::Taken> taken = free.take(wanted);
  if (!taken) {
    grow_for(wanted, most);
    taken = free.take(wanted);
    check(taken.has_value());
  }
  const memory::Extent& extent = taken->extent;
  Segment& segment = segments_.at(extent.segment);
  segment.idle_since.reset();
  const memory::BlockPlace place{.data = segment.mapping->data() + extent.offset,
                                 .bytes = extent.bytes,
                                 .offset = extent.offset,
                                 .segment = extent.segment,
                                 .kind = memory::BufferKind::kDevice,
                                 .pool = most};
  memory::BlockRef block =
      blocks_.enter(std::move(room), shared_from_this(), place, std::move(taken->place));
  platform::kill_point("loan.allocated");
  return block;
}

void DeviceArena::grow_for(std::size_t bytes, memory::Grant most) {
  const std::size_t least = rounded(bytes, granularity_);
  require_room(least, bytes);
  const std::size_t left = (options_.budget_bytes - reserved_bytes_) / granularity_ * granularity_;
  const std::size_t size =
      std::max(least, std::min(rounded(options_.segment_bytes, granularity_), left));
  const memory::SegmentId id = free_number();
  GpuAllocation allocation(device_, size);
  auto mapping = std::make_shared<const GpuMapping>(allocation, cu::AccessFlags::kReadWrite);
  const auto at =
      segments_.try_emplace(id, Segment{std::move(allocation), std::move(mapping), most}).first;
  try {
    free_of(most).add({id, 0, size});
    blocks_.add_segment(id, at->second.mapping->data(), size);
  } catch (...) {
    free_of(most).forget(id);
    segments_.erase(at);
    throw;
  }
  reserved_bytes_ += size;
}

// Numbers are used in turn, and wrap around. A borrower is notified of a retired segment before it
// gets another segment with the same number.
memory::SegmentId DeviceArena::free_number() {
  check(segments_.size() < memory::SegmentId::kMaxOfDevice);
  const auto ordinal = static_cast<std::uint32_t>(device_.ordinal());
  while (true) {
    const memory::SegmentId id =
        memory::SegmentId::device(ordinal, next_segment_++ % memory::SegmentId::kMaxOfDevice);
    const bool unreported = std::find(retired_.begin(), retired_.end(), id) != retired_.end();
    if (!unreported && !segments_.contains(id)) return id;
  }
}

void DeviceArena::require_room(std::size_t bytes, std::size_t asked) const {
  if (bytes <= options_.budget_bytes - reserved_bytes_) return;
  throw Error(Code::kOutOfMemory,
              std::to_string(asked) +
                  " bytes requested on cuda:" + std::to_string(device_.ordinal()) + ", but " +
                  std::to_string(blocks_.bytes()) + " bytes of " + std::to_string(reserved_bytes_) +
                  " are in use and the byte budget there is " +
                  std::to_string(options_.budget_bytes) +
                  ": wait until subscribers release samples, or raise cuda_budget_bytes "
                  "(TENSORBUS_CUDA_BUDGET)");
}

bool DeviceArena::free(memory::Block& block) noexcept {
  const platform::MutexLock lock(mutex_);
  const memory::SegmentId segment = block.segment();
  if (marks_->whole(block.write_mark()))
    free_of(block.max_grant()).give_back(blocks_.remove(block));
  else
    rested_.push_back({block.write_mark(), blocks_.remove(block)});
  note_idle(segment);
  return true;
}

// Called for a segment without blocks; a stream may still write to it.
void DeviceArena::note_idle(memory::SegmentId number) noexcept {
  Segment& segment = segments_.at(number);
  if (blocks_.any_in(number)) return;
  segment.idle_since = Clock::now();
  if (segments_.size() > 1) notify_idle();
}

void DeviceArena::notify_idle() noexcept {
  if (!reported_idle_ && idle_listener_) idle_listener_();
  reported_idle_ = true;
}

void DeviceArena::on_idle(std::function<void()> listener) {
  const platform::MutexLock lock(mutex_);
  idle_listener_ = std::move(listener);
}

void DeviceArena::retire_idle(Clock::time_point now) {
  DeferredReleaser::prepare();
  DeferredReleaser::Kept gone;  // released after our mutex
  {
    const platform::MutexLock lock(mutex_);
    wake_rested();
    retired_.reserve(retired_.size() + segments_.size());
    for (auto at = segments_.begin(); at != segments_.end() && segments_.size() > 1;) {
      const auto& [id, segment] = *at;
      const std::size_t bytes = segment.allocation.bytes();
      memory::FreeExtents& free = free_of(segment.max_grant);
      if (!segment.idle_since || now - *segment.idle_since < kIdle || !free.covers(id, bytes)) {
        ++at;
        continue;
      }
      gone.push_back(segment.mapping);
      free.forget(id);
      blocks_.remove_segment(segment.mapping->data());
      reserved_bytes_ -= bytes;
      retired_.push_back(id);
      at = segments_.erase(at);
    }
    const bool more = segments_.size() > 1 &&
                      std::any_of(segments_.begin(), segments_.end(),
                                  [](const auto& item) { return item.second.idle_since; });
    reported_idle_ = false;
    if (more) notify_idle();
  }
  DeferredReleaser::let_go(std::move(gone));
}

std::vector<memory::SegmentId> DeviceArena::take_retired() {
  const platform::MutexLock lock(mutex_);
  return std::exchange(retired_, {});
}

void DeviceArena::wake_rested() noexcept {
  const auto first = std::partition(rested_.begin(), rested_.end(), [this](const Rested& rested) {
    return !marks_->whole(rested.write_mark);
  });
  for (auto at = first; at != rested_.end(); ++at)
    free_in(at->taken.extent.segment).give_back(std::move(at->taken));
  rested_.erase(first, rested_.end());
}

memory::BlockRef DeviceArena::find(const void* address) const noexcept {
  const platform::MutexLock lock(mutex_);
  return blocks_.find(address);
}

memory::BlockRef DeviceArena::find(memory::SegmentId segment, std::uint64_t offset,
                                   std::uint64_t generation) const noexcept {
  if (generation == 0) return {};  // no block has generation 0
  const platform::MutexLock lock(mutex_);
  return blocks_.find(segment, offset, generation);
}

memory::SharedSegment DeviceArena::share_segment(memory::SegmentId id) const {
  const platform::MutexLock lock(mutex_);
  const Segment& segment = segments_.at(id);
  return {.fd = segment.allocation.descriptor(),
          .bytes = segment.allocation.bytes(),
          .device = Id{device_.uuid().bytes}};
}

ArenaUse DeviceArena::stats() const {
  const platform::MutexLock lock(mutex_);
  return {.segments = segments_.size(),
          .blocks = blocks_.count(),
          .used_bytes = blocks_.bytes(),
          .reserved_bytes = reserved_bytes_,
          .budget_bytes = options_.budget_bytes};
}

}  // namespace tensorbus::device
