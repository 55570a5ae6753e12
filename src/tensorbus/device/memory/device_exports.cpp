#include "tensorbus/device/memory/device_exports.hpp"

#include <algorithm>
#include <new>
#include <optional>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/kill_point.hpp"

namespace tensorbus::device {

// The records of a new block. They are allocated first, so that no later step must be undone.
class DeviceExports::Room {
 public:
  explicit Room(std::shared_ptr<const void> keeper) : block_(new memory::Block) {
    Blocks one;
    Lent& lent = one[0];
    lent.block = block_.get();
    lent.keeper.push_back(std::move(keeper));
    node_ = one.extract(one.begin());
  }

 private:
  friend class DeviceExports;
  struct Delete {
    void operator()(memory::Block* block) const noexcept { delete block; }
  };
  std::unique_ptr<memory::Block, Delete> block_;
  Blocks::node_type node_;
};

// DeferredReleaser's thread releases the handles of chunks, because it may call the driver.
DeviceExports::~DeviceExports() {
  for (auto& [number, segment] : segments_) try {
      DeferredReleaser::let_go(DeferredReleaser::Kept(1, std::move(segment.memory)));
    } catch (const std::bad_alloc&) {  // the memory is then released here
    }
}

memory::BlockRef DeviceExports::lend(const Gpu& device, const std::byte* first, std::size_t bytes,
                                     std::shared_ptr<const void> keeper) {
  try {
    DeferredReleaser::prepare();
    Room room(std::move(keeper));
    for (int attempt = 0; attempt < 2; ++attempt) {
      std::optional<ForeignMemory> memory = ForeignMemory::around(device, first, bytes);
      if (!memory) return {};
      {
        const platform::MutexLock lock(mutex_);
        const auto found = segment_holding(*memory);
        if (found != segments_.end()) return enter(room, found, first, bytes);
      }
      if (!make_segment(*std::move(memory))) return {};
    }
  } catch (const Error&) {  // the tensor is then copied
  }
  return {};
}

DeviceExports::Segments::iterator DeviceExports::segment_holding(const ForeignMemory& memory) {
  return std::find_if(segments_.begin(), segments_.end(),
                      [&](const auto& item) { return item.second.memory->holds(memory); });
}

// If two threads do this for the same memory, each makes a segment.
bool DeviceExports::make_segment(ForeignMemory memory) {
  const bool pooled = memory.kind() == ForeignMemory::Kind::kPool;
  if (!memory.make_shareable()) return false;
  std::vector<Segment> gone;  // released after our mutex
  memory::SegmentId number;
  {
    const platform::MutexLock lock(mutex_);
    if (next_segment_ == memory::SegmentId::kMaxForeign || !make_way_for(memory, gone))
      return false;
    number = memory::SegmentId::foreign(next_segment_++);
  }
  auto own =
      std::make_unique<DeviceImports::Own>(DeviceImports::Name{self_, number}, memory.range());
  Segment segment{std::make_shared<const ForeignMemory>(std::move(memory)),
                  pooled ? std::make_shared<Hold>() : nullptr, std::move(own), 0, Clock::now()};
  bool first = false;
  {
    const platform::MutexLock lock(mutex_);
    first = segments_.empty();
    segments_.emplace(number, std::move(segment));
  }
  if ((first || !gone.empty()) && first_listener_) first_listener_();
  return true;
}

// Retires the segments of earlier memory at the same addresses: that memory is gone. Returns false
// if all possible segments are in use, or too many are closing.
bool DeviceExports::make_way_for(const ForeignMemory& memory, std::vector<Segment>& gone) {
  if (memory.kind() == ForeignMemory::Kind::kPool && closing() >= kMaxClosing) return false;
  for (auto at = segments_.begin(); at != segments_.end();) {
    const auto segment = at++;
    if (segment->second.blocks == 0 && memory.replaces(*segment->second.memory))
      retire(segment, gone);
  }
  if (segments_.size() < kMaxSegments) return true;
  auto oldest = segments_.end();
  for (auto at = segments_.begin(); at != segments_.end(); ++at)
    if (at->second.blocks == 0 &&
        (oldest == segments_.end() || at->second.used < oldest->second.used))
      oldest = at;
  if (oldest == segments_.end()) return false;
  retire(oldest, gone);
  return true;
}

void DeviceExports::retire(Segments::iterator segment, std::vector<Segment>& gone) {
  retired_.reserve(retired_.size() + 1);
  if (segment->second.hold) closing_.push_back(segment->second.hold);
  gone.push_back(std::move(segment->second));
  retired_.push_back(segment->first);
  segments_.erase(segment);
}

std::size_t DeviceExports::closing() const {
  std::erase_if(closing_, [](const auto& hold) { return hold.expired(); });
  return closing_.size();
}

memory::BlockRef DeviceExports::enter(Room& room, Segments::iterator segment,
                                      const std::byte* first, std::size_t bytes) noexcept {
  const std::byte* const base = segment->second.memory->range().data();
  ++segment->second.blocks;
  if (segment->second.hold)
    DeferredReleaser::let_go(std::exchange(segment->second.hold->keeper, {}));
  memory::Block& block = *room.block_;
  block.home_ = shared_from_this();
  block.place_ = {.data = const_cast<std::byte*>(first),
                  .bytes = bytes,
                  .offset = static_cast<std::uint64_t>(first - base),
                  .segment = segment->first,
                  .kind = memory::BufferKind::kDevice};
  block.generation_ = next_generation_++;
  room.node_.key() = block.generation_;
  blocks_.insert(std::move(room.node_));
  platform::kill_point("export.lent");
  return memory::BlockRef(room.block_.release());
}

bool DeviceExports::free(memory::Block& block) noexcept {
  Blocks::node_type lent;
  {
    const platform::MutexLock lock(mutex_);
    lent = blocks_.extract(block.generation());
    Segment& segment = segments_.at(block.segment());
    --segment.blocks;
    segment.used = Clock::now();
    if (segment.hold && segment.blocks == 0) {
      segment.hold->keeper.splice(segment.hold->keeper.end(), lent.mapped().keeper);
      return true;
    }
  }
  DeferredReleaser::let_go(std::move(lent.mapped().keeper));
  return true;
}

memory::BlockRef DeviceExports::find(memory::SegmentId segment, std::uint64_t offset,
                                     std::uint64_t generation) const noexcept {
  const platform::MutexLock lock(mutex_);
  const auto found = blocks_.find(generation);
  if (found == blocks_.end()) return {};
  memory::Block& block = *found->second.block;
  if (block.segment() != segment || offset < block.offset() ||
      offset - block.offset() >= block.bytes())
    return {};
  return block.another();
}

DeviceExports::Memory DeviceExports::memory_of(memory::SegmentId segment) const {
  const platform::MutexLock lock(mutex_);
  return segments_.at(segment).memory;
}

std::shared_ptr<const void> DeviceExports::held(memory::SegmentId segment) const {
  const platform::MutexLock lock(mutex_);
  return segments_.at(segment).hold;
}

// Called with mutex_ held. A pool's segment is due at once: a thread may wait for the release of
// its keeper.
bool DeviceExports::is_due(const Segment& segment, Clock::time_point now) {
  const bool has_keeper = segment.hold && !segment.hold->keeper.empty();
  return segment.blocks == 0 && (has_keeper || now - segment.used >= kIdle);
}

void DeviceExports::retire_idle(Clock::time_point now) {
  std::vector<std::pair<memory::SegmentId, Memory>> idle;
  {
    const platform::MutexLock lock(mutex_);
    for (const auto& [number, segment] : segments_)
      if (segment.blocks == 0) idle.emplace_back(number, segment.memory);
  }
  std::vector<Segment> gone;  // released after our mutex
  for (const auto& [number, memory] : idle) {
    const bool there = memory->there();
    const platform::MutexLock lock(mutex_);
    const auto found = segments_.find(number);
    if (found == segments_.end() || found->second.blocks != 0) continue;
    if (!there || is_due(found->second, now)) retire(found, gone);
  }
}

std::vector<memory::SegmentId> DeviceExports::take_retired() {
  const platform::MutexLock lock(mutex_);
  return std::exchange(retired_, {});
}

DeviceExports::Stats DeviceExports::stats() const {
  const platform::MutexLock lock(mutex_);
  return {segments_.size(), blocks_.size(), closing(), next_generation_ - 1};
}

}  // namespace tensorbus::device
