#include "tensorbus/memory/host/arena.hpp"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "tensorbus/memory/host/block_sizes.hpp"
#include "tensorbus/platform/check.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/platform/kill_point.hpp"
#include "tensorbus/platform/memory_room.hpp"

namespace tensorbus::memory {
namespace {

thread_local bool attempts_for_room = false;  // this thread is in RoomWait::attempt()

std::size_t default_budget() {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * platform::page_bytes() / 4 * 3;
}

ArenaOptions completed(ArenaOptions options) {
  if (options.budget_bytes == 0) options.budget_bytes = default_budget();
  options.segment_bytes = whole(options.segment_bytes, platform::page_bytes());
  return options;
}

std::string mebibytes(std::size_t bytes) {
  return std::to_string(bytes) + " bytes (" + std::to_string(bytes >> 20) + " MiB)";
}

std::string for_children(std::size_t bytes) {
  if (bytes == 0) return "";
  return ", of which a forked child of this process still holds " + mebibytes(bytes) +
         " (until it ends or calls exec)";
}

}  // namespace

std::shared_ptr<Arena> Arena::create(const ArenaOptions& options) {
  return std::shared_ptr<Arena>(new Arena(completed(options)));
}

Arena::Arena(const ArenaOptions& options) : options_(options) {
  for (const Grant most : {Grant::kRead, Grant::kWrite}) pools_.try_emplace(most);
}

PoolId Arena::make_pool(Grant most) {
  const platform::MutexLock lock(mutex_);
  const PoolId id{most, next_pool_};
  pools_.try_emplace(id);
  ++next_pool_;
  return id;
}

void Arena::close_pool(PoolId id) noexcept {
  const platform::MutexLock lock(mutex_);
  pool(id).closed = true;
  while (blocks_.any_rests()) end_rest();
  for (auto next = segments_.begin(); next != segments_.end();) {
    const auto at = next++;
    if (at->second.pool() == id) retire_if_empty(at->first);
  }
  const auto left = pools_.find(id);
  if (left != pools_.end() && left->second.segments == 0) pools_.erase(left);
}

BlockRef Arena::allocate(std::size_t bytes, PoolId pool) {
  if (bytes > options_.budget_bytes)
    throw Error(Code::kOutOfMemory, mebibytes(bytes) + " requested, but the byte budget is " +
                                        mebibytes(options_.budget_bytes) +
                                        ": raise budget_bytes (TENSORBUS_BUDGET)");
  const platform::MutexLock lock(mutex_);
  if (BlockRef block = blocks_.wake(block_bytes(bytes, pool), pool, shared_from_this())) {
    platform::kill_point("loan.allocated");
    return block;
  }
  // The resting blocks have other sizes. One of them, merged with its neighbours, may fit best.
  while (blocks_.any_rests()) end_rest();
  LivingBlocks::Room room;
  FreeExtents::Taken taken = take_extent(block_bytes(bytes, pool), pool);
  const Extent& extent = taken.extent;
  const BlockPlace place{.data = segments_.at(extent.segment).data() + extent.offset,
                         .bytes = extent.bytes,
                         .offset = extent.offset,
                         .segment = extent.segment,
                         .pool = pool};
  BlockRef block =
      blocks_.enter(std::move(room), shared_from_this(), place, std::move(taken.place));
  platform::kill_point("loan.allocated");
  return block;
}

FreeExtents::Taken Arena::take_extent(std::size_t bytes, PoolId id) {
  const auto found = pools_.find(id);
  if (found == pools_.end() || found->second.closed)
    throw Error(Code::kClosed, "the publisher is closed");
  FreeExtents& free = found->second.free;
  std::optional<FreeExtents::Taken> taken =
      free.take(bytes, block_alignment(bytes, id, huge_.bytes));
  if (!taken) {
    grow_for(bytes, id);
    taken = free.take(bytes, block_alignment(bytes, id, huge_.bytes));
    check(taken.has_value());
  }
  try {
    if (make_usable(taken->extent)) return *std::move(taken);
  } catch (...) {
    give_back(*std::move(taken), id);
    throw;
  }
  give_back(*std::move(taken), id);
  refuse("the kernel has no " + mebibytes(bytes) +
         " of shared memory: the memory of this machine, or of a cgroup (memory.max), is used up. "
         "Release some, or raise the limit");
}

void Arena::give_back(FreeExtents::Taken taken, PoolId id) noexcept {
  const SegmentId segment = taken.extent.segment;
  pool(id).free.give_back(std::move(taken));
  retire_if_empty(segment);
}

void Arena::grow_for(std::size_t bytes, PoolId pool_id) {
  Pool& pool = this->pool(pool_id);
  const std::size_t page = platform::page_bytes();
  const std::size_t limit = platform::max_file_bytes() / page * page;
  huge_ = options_.huge_pages ? *options_.huge_pages : platform::huge_pages();
  const std::size_t large = whole(bytes, std::max(page, huge_.bytes));
  const std::size_t wanted = bytes <= options_.segment_bytes ? options_.segment_bytes : large;
  const std::size_t segment_bytes = std::max(bytes, std::min(wanted, limit));
  const std::uint32_t number = next_segment_++;
  const SegmentId id =
      pool_id.most == Grant::kWrite ? SegmentId::writable_host(number) : SegmentId::host(number);
  retired_.reserve(retired_.size() + segments_.size() + 1);
  const auto at = segments_.try_emplace(id, id, segment_bytes, pool_id, huge_).first;
  try {
    pool.free.add({id, 0, segment_bytes});
    blocks_.add_segment(id, at->second.data(), segment_bytes);
  } catch (...) {
    pool.free.forget(id);
    segments_.erase(at);
    throw;
  }
  ++pool.segments;
}

bool Arena::make_usable(const Extent& extent) {
  Segment& segment = segments_.at(extent.segment);
  Range range{extent.offset, extent.offset + extent.bytes};
  if (segment.unreserved_bytes(range) == 0) return true;
  // A wider range saves system calls and page faults, but must not exceed the budget.
  for (const Range& wide : {segment.widened(range), segment.widened_to_huge_pages(range)})
    if (reserved_bytes_ + segment.unreserved_bytes(wide) <= options_.budget_bytes) range = wide;
  require_room(segment.unreserved_bytes(range), extent.bytes);
  const std::size_t before = segment.reserved_bytes();
  if (!segment.reserve(range)) return false;
  reserved_bytes_ += segment.reserved_bytes() - before;
  return true;
}

void Arena::require_room(std::size_t bytes, std::size_t asked) {
  if (reserved_bytes_ + bytes > options_.budget_bytes)
    trim(options_.budget_bytes > bytes ? options_.budget_bytes - bytes : 0);
  if (reserved_bytes_ + bytes > options_.budget_bytes)
    refuse(mebibytes(asked) + " requested, but " + mebibytes(blocks_.bytes()) +
           " of the byte budget of " + mebibytes(options_.budget_bytes) + " are in use" +
           for_children(inherited_bytes_) +
           ": wait until subscribers release samples, or raise budget_bytes (TENSORBUS_BUDGET)");
  const platform::MemoryRoom room = platform::memory_room();
  if (bytes > room.bytes)
    refuse(mebibytes(asked) + " requested, but " + room.limit + " leaves " + mebibytes(room.bytes));
}

void Arena::refuse(const std::string& why) const {
  if (blocks_.count() == 0) throw Error(Code::kOutOfMemory, why);
  throw ArenaFull(why);
}

void Arena::notify_freed() noexcept {
  if (waiting_ == 0 || attempts_for_room) return;
  freed_.store(freed_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  platform::futex_wake_all(freed_);
}

RoomWait::RoomWait(Arena& arena) noexcept : arena_(arena) {
  const platform::MutexLock lock(arena_.mutex_);
  ++arena_.waiting_;
}

RoomWait::~RoomWait() {
  const platform::MutexLock lock(arena_.mutex_);
  --arena_.waiting_;
}

RoomWait::Attempt::Attempt() noexcept { attempts_for_room = true; }

RoomWait::Attempt::~Attempt() { attempts_for_room = false; }

bool Arena::free(Block& block) noexcept {
  const platform::MutexLock lock(mutex_);
  if (keep_for_children(block)) return false;
  if (closed_ || is_of_closed_pool(block)) {  // its space will not be allocated again
    give_back(blocks_.remove(block), block.pool());
    notify_freed();
    return true;
  }
  if (blocks_.all_rest()) end_rest();
  blocks_.rest(block);
  keep_warm_limit();
  notify_freed();
  return false;
}

// Returns false for a block that was kept for children before, and in a closed arena.
bool Arena::keep_for_children(Block& block) noexcept {
  if (block.for_children_) {
    block.for_children_ = false;
    inherited_bytes_ -= block.bytes();
    return false;
  }
  if (!platform::may_be_inherited(block.born()) || closed_) return false;
  block.home_ = shared_from_this();  // first, because the block may return at once
  block.for_children_ = true;
  if (platform::keep_for_children(block)) {
    inherited_bytes_ += block.bytes();
    return true;
  }
  block.home_.reset();
  block.for_children_ = false;
  return false;
}

void Arena::end_rest() noexcept {
  FreeExtents::Taken taken = blocks_.end_rest();
  const PoolId id = segments_.at(taken.extent.segment).pool();
  pool(id).free.give_back(std::move(taken));
}

// The unused rest of a block's huge pages does not count: giving it back would split the pages.
void Arena::keep_warm_limit() noexcept {
  const std::size_t used = blocks_.bytes() + (huge_.bytes == 0 ? 0 : blocks_.bytes() / 8);
  if (!closed_ && reserved_bytes_ > used && reserved_bytes_ - used > options_.warm_bytes)
    trim(used + options_.warm_bytes);
}

void Arena::close() noexcept {
  const platform::MutexLock lock(mutex_);
  closed_ = true;
  retired_listener_ = {};
  files_.on_retired({});
}

// Punches free memory until at most `reserved_target` bytes are reserved, then removes empty
// segments. Huge pages are split only if nothing else is left.
void Arena::trim(std::size_t reserved_target) noexcept {
  while (blocks_.any_rests()) end_rest();
  for (const auto pages : {platform::Pages::kHuge, platform::Pages::kSmall})
    for (const auto& [id, pool] : pools_) trim(pool.free, reserved_target, pages);
  for (auto next = segments_.begin(); next != segments_.end();) retire_if_empty((next++)->first);
}

// Punches from the highest address down.
void Arena::trim(const FreeExtents& free, std::size_t reserved_target,
                 platform::Pages pages) noexcept {
  free.from_the_end([&](const Extent& extent) {
    mutex_.assert_held();
    if (reserved_bytes_ <= reserved_target) return false;
    Segment& segment = segments_.at(extent.segment);
    for (Range left{extent.offset, extent.offset + extent.bytes}; left.bytes() > 0;) {
      const Range part = unpinned_end(extent.segment, left);
      const std::size_t before = segment.reserved_bytes();
      if (reserved_bytes_ > reserved_target)
        segment.punch(part, reserved_bytes_ - reserved_target, pages);
      reserved_bytes_ -= before - segment.reserved_bytes();
      left.end = part.begin;
    }
    return true;
  });
}

// Returns the part of a range behind its last pinned part. If a pinned part reaches the end of the
// range, returns an empty range at the beginning of that part.
Range Arena::unpinned_end(SegmentId segment, Range range) const noexcept {
  const auto [begin, end] = pinned_.equal_range(segment);
  Range part = range;
  for (auto at = begin; at != end; ++at) {
    const Range& pinned = at->second;
    if (pinned.begin >= part.end || pinned.end <= part.begin) continue;
    if (pinned.end < part.end)
      part.begin = pinned.end;
    else
      part = {std::max(pinned.begin, range.begin), std::max(pinned.begin, range.begin)};
    if (part.bytes() == 0) return part;
  }
  return part;
}

std::optional<Range> Arena::pin(SegmentId segment, std::uint64_t offset, std::uint64_t generation) {
  const std::size_t page = platform::page_bytes();
  const BlockRef block = find(segment, offset, generation);  // released after the mutex
  if (!block || block->offset() % page != 0 || block->bytes() % page != 0) return std::nullopt;
  const Range part{block->offset(), block->offset() + block->bytes()};
  const platform::MutexLock lock(mutex_);
  if (pinned_bytes_ + part.bytes() > options_.budget_bytes / 2) return std::nullopt;
  pinned_.emplace(segment, part);
  pinned_bytes_ += part.bytes();
  return part;
}

void Arena::unpin(SegmentId segment, Range part) noexcept {
  const platform::MutexLock lock(mutex_);
  const auto [begin, end] = pinned_.equal_range(segment);
  const auto found =
      std::find_if(begin, end, [&](const auto& item) { return item.second == part; });
  if (found == end) return;
  pinned_.erase(found);
  pinned_bytes_ -= part.bytes();
  retire_if_empty(segment);
  keep_warm_limit();
  notify_freed();
}

// Removes a segment if none of it is in use or warm; the last segment of a pool stays. In a closed
// pool, removes it if none of it is in use or pinned; the pool is removed with its last segment.
void Arena::retire_if_empty(SegmentId id) noexcept {
  const auto found = segments_.find(id);
  if (found == segments_.end()) return;
  const Segment& segment = found->second;
  Pool& pool = this->pool(segment.pool());
  if (pool.closed ? pinned_.contains(id) : pool.segments == 1 || segment.reserved_bytes() != 0)
    return;
  if (!pool.free.covers(id, segment.bytes())) return;
  pool.free.forget(id);
  reserved_bytes_ -= segment.reserved_bytes();
  if (--pool.segments == 0) pools_.erase(segment.pool());
  blocks_.remove_segment(segment.data());
  segments_.erase(found);
  retired_.push_back(id);
  if (retired_listener_) retired_listener_();
}

BlockRef Arena::find(const void* address) const noexcept {
  const platform::MutexLock lock(mutex_);
  return blocks_.find(address);
}

BlockRef Arena::find(SegmentId segment, std::uint64_t offset,
                     std::uint64_t generation) const noexcept {
  if (generation == 0) return {};  // no block has generation 0
  const platform::MutexLock lock(mutex_);
  return blocks_.find(segment, offset, generation);
}

SharedSegment Arena::share_segment(SegmentId id, Grant grant) const {
  const platform::MutexLock lock(mutex_);
  const Segment& segment = segments_.at(id);
  return {segment.descriptor(grant), segment.bytes()};
}

std::vector<SegmentId> Arena::take_retired() {
  const platform::MutexLock lock(mutex_);
  if (retired_.empty()) return {};
  std::vector<SegmentId> room;
  room.reserve(segments_.size());
  return std::exchange(retired_, std::move(room));
}

void Arena::on_retired(std::function<void()> listener) {
  const platform::MutexLock lock(mutex_);
  retired_listener_ = std::move(listener);
}

ArenaUse Arena::stats() const {
  const platform::MutexLock lock(mutex_);
  return {.segments = segments_.size(),
          .blocks = blocks_.count(),
          .used_bytes = blocks_.bytes(),
          .reserved_bytes = reserved_bytes_,
          .budget_bytes = options_.budget_bytes,
          .inherited_bytes = inherited_bytes_};
}

}  // namespace tensorbus::memory
