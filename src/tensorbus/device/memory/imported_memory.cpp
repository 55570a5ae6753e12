#include "tensorbus/device/memory/imported_memory.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <set>
#include <string>

#include "tensorbus/device/memory/device_memory.hpp"
#include "tensorbus/platform/immortal.hpp"

namespace tensorbus::device {
namespace {

constexpr std::size_t kMaxSegments = 4096;

struct Registry {
  platform::Mutex mutex;
  std::set<const ImportedMemory*> all TB_GUARDED_BY(mutex);
};

platform::Immortal<Registry> registry;

}  // namespace

ImportedMemory::ImportedMemory() = default;

ImportedMemory::~ImportedMemory() {
  if (any_wanted_.load(std::memory_order_relaxed)) {
    const platform::MutexLock lock(registry->mutex);
    registry->all.erase(this);
  }
  if (!timeline_) return;
  for (auto& [id, segment] : segments_)
    if (segment.mapping) timeline_->keep(std::move(segment.mapping));
  for (Ref& mapping : retired_) timeline_->keep(std::move(mapping));
}

void ImportedMemory::add(memory::SegmentId id, memory::Grant grant, platform::Fd fd,
                         std::size_t bytes, const GpuUuid& device) {
  if (id.kind() != memory::SegmentKind::kDevice || bytes == 0)
    throw Error(Code::kProtocol, "DEVICE_SEGMENT.segment: " + std::to_string(id.number) + " of " +
                                     std::to_string(bytes) + " bytes");
  const platform::MutexLock lock(mutex_);
  if (segments_.size() >= kMaxSegments)
    throw Error(Code::kProtocol, "DEVICE_SEGMENT.segment: more than an owner can need");
  if (segments_.contains({id, grant}))
    throw Error(Code::kProtocol,
                "DEVICE_SEGMENT.segment: " + std::to_string(id.number) + " was sent twice");
  Segment segment{std::move(fd), bytes, device};
  segment.descriptors.push_back(account_.take({.descriptors = 1}));
  segments_.emplace(Name(id, grant), std::move(segment));
}

void ImportedMemory::add_export(const Id& owner, bool ours, ExportPart part) {
  const memory::SegmentId id = part.segment;
  if (id.kind() != memory::SegmentKind::kForeign)
    throw Error(Code::kProtocol, "DEVICE_EXPORT.segment: " + std::to_string(id.number));
  const platform::MutexLock lock(mutex_);
  let_go_of_unused();
  std::size_t descriptors = 0;
  for (const auto& [number, segment] : segments_)
    if (segment.foreign) descriptors += segment.foreign->descriptors();
  if (segments_.size() >= kMaxSegments || descriptors >= kMaxSegments)
    throw Error(Code::kProtocol, "DEVICE_EXPORT.segment: more than an owner can need");
  const Name name{id, memory::Grant::kRead};
  const auto found = segments_.find(name);
  memory::PeerCharge charge = account_.take({.descriptors = part.fd ? 1U : 0U});
  if (found != segments_.end()) {
    found->second.descriptors.push_back(std::move(charge));
    return found->second.foreign->add(std::move(part));
  }
  const GpuUuid device = part.device;
  auto fresh = std::make_unique<ImportedExport>(owner, ours, std::move(part));
  if (fresh->is_pooled() && on_closed_) fresh->release_after_closing(on_closed_(id));
  Segment& segment = segments_[name];
  segment.device = device;
  segment.descriptors.push_back(std::move(charge));
  segment.foreign = std::move(fresh);
}

void ImportedMemory::retire(memory::SegmentId id) {
  std::array<decltype(segments_)::node_type, 2> gone;  // released without mutex_: it may notify
  const platform::MutexLock lock(mutex_);
  let_go_of_unused();
  retired_.reserve(retired_.size() + gone.size());  // allocated before anything is removed
  for (const memory::Grant grant : {memory::Grant::kRead, memory::Grant::kWrite}) {
    auto& segment = gone[static_cast<std::size_t>(grant)];
    segment = segments_.extract(Name(id, grant));
    if (!segment || !segment.mapped().mapping) continue;
    retired_.push_back(std::move(segment.mapped().mapping));
  }
  let_go_of_unused();
}

bool ImportedMemory::let_go_of_retired() {
  const platform::MutexLock lock(mutex_);
  let_go_of_unused();
  return retired_.empty();
}

// No thread can get a retired mapping any more. So when no other reference is left, all work that
// uses the mapping has been enqueued.
void ImportedMemory::let_go_of_unused() {
  std::erase_if(retired_, [this](const Ref& mapping) {
    mutex_.assert_held();
    if (mapping.use_count() > 1) return false;
    // Pairs with the release of the last lease of the mapping. That lease has signalled before.
    std::atomic_thread_fence(std::memory_order_acquire);
    try {
      if (timeline_) timeline_->keep_until_passed(mapping);
      return true;
    } catch (const std::bad_alloc&) {
      return false;  // a later call tries again
    }
  });
}

bool ImportedMemory::has(memory::SegmentId id, memory::Grant grant) const noexcept {
  const platform::MutexLock lock(mutex_);
  return segments_.contains({id, grant});
}

memory::SharedSegment ImportedMemory::hand_on(memory::SegmentId id, memory::Grant grant) const {
  const platform::MutexLock lock(mutex_);
  const auto found = segments_.find({id, grant});
  if (found == segments_.end() || found->second.foreign)
    throw Error(Code::kClosed,
                "the memory is gone: its owner is dead, and did not allocate it from the bus");
  const Segment& segment = found->second;
  return {.fd = platform::duplicate(segment.fd.get()),
          .bytes = segment.bytes,
          .device = Id{segment.device.bytes}};
}

// Starts the device before map(), without mutex_. The first use of a device can take a second, and
// the event loop, which also takes mutex_, must not wait that long.
void ImportedMemory::start_device_of(const Name& name) {
  GpuUuid uuid;
  {
    const platform::MutexLock lock(mutex_);
    const auto found = segments_.find(name);
    if (found == segments_.end() || found->second.mapping || found->second.unusable) return;
    uuid = found->second.device;
  }
  try {
    if (const auto* const device = Gpu::find(uuid)) (void)device->context();
  } catch (const Error&) {  // map() throws it again
  }
}

ImportedMemory::Ref ImportedMemory::find(memory::SegmentId id, memory::Grant grant) {
  enter();
  start_device_of({id, grant});
  const platform::MutexLock lock(mutex_);
  if (!retired_.empty()) let_go_of_unused();
  const auto found = segments_.find({id, grant});
  if (found == segments_.end()) return nullptr;
  Segment& segment = found->second;
  if (segment.mapping) return segment.mapping;
  if (segment.unusable) throw Error(*segment.unusable);
  try {
    segment.mapping = map(segment, grant);
  } catch (const Error& error) {
    if (error.code() == Code::kUnsupported || error.code() == Code::kForked) {
      segment.unusable = error;
      if (segment.foreign) segment.foreign->drop_descriptors();
    }
    throw;
  }
  return segment.mapping;
}

bool ImportedMemory::is_usable(memory::SegmentId id, memory::Grant grant) const noexcept {
  const platform::MutexLock lock(mutex_);
  const auto found = segments_.find({id, grant});
  return found == segments_.end() || !found->second.unusable;
}

ImportedMemory::Ref ImportedMemory::map(Segment& segment, memory::Grant grant) {
  if (segment.foreign) return segment.foreign->open();
  const Gpu& device = Gpu::seen(segment.device);
  if (segment.bytes > device.total_bytes())
    throw Error(Code::kProtocol, "DEVICE_SEGMENT.bytes: " + std::to_string(segment.bytes) +
                                     ", more than the device has");
  const GpuAllocation allocation(device, segment.fd, segment.bytes);
  using cu::AccessFlags;
  return std::make_shared<const GpuMapping>(
      allocation, grant == memory::Grant::kWrite ? AccessFlags::kReadWrite : AccessFlags::kRead);
}

// Lock order: the registry's mutex, then mutex_.
void ImportedMemory::enter() {
  if (any_wanted_.load(std::memory_order_relaxed)) return;
  const platform::MutexLock lock(registry->mutex);
  registry->all.insert(this);
  any_wanted_.store(true, std::memory_order_relaxed);
}

bool ImportedMemory::any_covers(const std::byte* address) noexcept {
  if (DeviceImports::is_own(address)) return false;
  const platform::MutexLock lock(registry->mutex);
  return std::ranges::any_of(registry->all,
                             [address](const auto* one) { return one->covers(address); });
}

bool ImportedMemory::covers(const std::byte* address) const noexcept {
  if (!any_wanted_.load(std::memory_order_relaxed)) return false;
  const auto has_it = [address](const Ref& mapping) {
    return mapping && address >= mapping->data() && address < mapping->data() + mapping->size();
  };
  const platform::MutexLock lock(mutex_);
  return std::ranges::any_of(segments_,
                             [&](const auto& item) { return has_it(item.second.mapping); }) ||
         std::ranges::any_of(retired_, has_it);
}

void ImportedMemory::set_timeline(platform::Fd memory, Timeline::Peer owner) {
  const platform::MutexLock lock(mutex_);
  if (timeline_) throw Error(Code::kProtocol, "TIMELINE: sent twice");
  timeline_ = std::make_unique<Timeline>(std::move(memory), std::move(owner));
}

void ImportedMemory::set_timeline_of_the_dead() {
  const platform::MutexLock lock(mutex_);
  if (!timeline_) timeline_ = std::make_unique<Timeline>();
}

Timeline* ImportedMemory::timeline() const noexcept {
  const platform::MutexLock lock(mutex_);
  return timeline_.get();
}

void ImportedMemory::owner_hung_up(bool has_pidfd) noexcept {
  Timeline* const timeline = this->timeline();
  if (timeline != nullptr && !has_pidfd) timeline->peer_died();
}

}  // namespace tensorbus::device
