#include "tensorbus/memory/cuda_arena.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "tensorbus/platform/check.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/step.hpp"

namespace tensorbus::memory {
namespace {

std::size_t rounded(std::size_t bytes, std::size_t step) {
  return (std::max<std::size_t>(bytes, 1) + step - 1) / step * step;
}

CudaArenaOptions completed(CudaArenaOptions options, const platform::CudaDevice& device) {
  if (options.budget_bytes == 0) options.budget_bytes = device.total_bytes() / 2;
  return options;
}

}  // namespace

std::shared_ptr<CudaArena> CudaArena::create(const platform::CudaDevice& device,
                                             const CudaArenaOptions& options,
                                             std::uint32_t first_segment,
                                             std::shared_ptr<WriteMarks> marks) {
  return std::shared_ptr<CudaArena>(
      new CudaArena(device, completed(options, device), first_segment, std::move(marks)));
}

CudaArena::CudaArena(const platform::CudaDevice& device, const CudaArenaOptions& options,
                     std::uint32_t first_segment, std::shared_ptr<WriteMarks> marks)
    : device_(device),
      options_(options),
      granularity_(platform::cuda_granularity(device)),
      marks_(std::move(marks)),
      next_segment_(first_segment),
      end_segment_(first_segment + kMostSegments) {}

CudaArena::~CudaArena() {
  for (const Rested& rested : rested_)
    if (!marks_->whole(rested.write_mark))
      marks_->keep(segments_.at(rested.taken.extent.segment).mapping);
}

BlockRef CudaArena::allocate(std::size_t bytes) {
  const std::size_t wanted = rounded(bytes, kBlockAlignment);
  LivingBlocks::Room room;
  const std::lock_guard lock(mutex_);
  rested_.reserve(rested_.size() + blocks_.count() + 1);
  wake_rested();
  std::optional<FreeExtents::Taken> taken = free_.take(wanted);
  if (!taken) {
    grow_for(wanted);
    taken = free_.take(wanted);
    check(taken.has_value());
  }
  const Extent& extent = taken->extent;
  const BlockPlace place{.data = segments_.at(extent.segment).mapping->data() + extent.offset,
                         .bytes = extent.bytes,
                         .offset = extent.offset,
                         .segment = extent.segment,
                         .kind = BufferKind::kCuda};
  BlockRef block =
      blocks_.enter(std::move(room), shared_from_this(), place, std::move(taken->place));
  platform::step("loan.allocated");
  return block;
}

void CudaArena::grow_for(std::size_t bytes) {
  const std::size_t least = rounded(bytes, granularity_);
  require_room(least, bytes);
  const std::size_t left = (options_.budget_bytes - reserved_bytes_) / granularity_ * granularity_;
  const std::size_t size =
      std::max(least, std::min(rounded(options_.segment_bytes, granularity_), left));
  check(next_segment_ != end_segment_);
  const std::uint32_t id = next_segment_++;
  platform::CudaAllocation allocation(device_, size);
  auto mapping = std::make_shared<const platform::CudaMapping>(
      allocation, platform::cu::AccessFlags::kReadWrite);
  const auto at =
      segments_.try_emplace(id, Segment{std::move(allocation), std::move(mapping)}).first;
  try {
    free_.add({id, 0, size});
    blocks_.add_segment(id, at->second.mapping->data());
  } catch (...) {
    free_.forget(id);
    segments_.erase(at);
    throw;
  }
  reserved_bytes_ += size;
}

void CudaArena::require_room(std::size_t bytes, std::size_t asked) const {
  if (bytes <= options_.budget_bytes - reserved_bytes_) return;
  throw Error(Code::kOutOfMemory,
              std::to_string(asked) +
                  " bytes asked for on cuda:" + std::to_string(device_.ordinal()) + ", but " +
                  std::to_string(blocks_.bytes()) + " bytes of " + std::to_string(reserved_bytes_) +
                  " are in use and the byte budget there is " +
                  std::to_string(options_.budget_bytes) +
                  ": wait for subscribers to let go, or raise cuda_budget_bytes "
                  "(TENSORBUS_CUDA_BUDGET)");
}

void CudaArena::free(Block& block) noexcept {
  const std::lock_guard lock(mutex_);
  if (marks_->whole(block.write_mark()))
    free_.give_back(blocks_.remove(block));
  else
    rested_.push_back({block.write_mark(), blocks_.remove(block)});
}

void CudaArena::wake_rested() noexcept {
  const auto first = std::partition(rested_.begin(), rested_.end(), [this](const Rested& rested) {
    return !marks_->whole(rested.write_mark);
  });
  for (auto at = first; at != rested_.end(); ++at) free_.give_back(std::move(at->taken));
  rested_.erase(first, rested_.end());
}

BlockRef CudaArena::find(const void* address) const noexcept {
  const std::lock_guard lock(mutex_);
  return blocks_.find(address);
}

BlockRef CudaArena::find(std::uint32_t segment, std::uint64_t offset,
                         std::uint64_t generation) const noexcept {
  if (generation == 0) return {};  // no block has it
  const std::lock_guard lock(mutex_);
  return blocks_.find(segment, offset, generation);
}

CudaArena::SharedSegment CudaArena::share_segment(std::uint32_t id) const {
  const std::lock_guard lock(mutex_);
  const Segment& segment = segments_.at(id);
  return {segment.allocation.descriptor(), segment.allocation.bytes()};
}

CudaArenaStats CudaArena::stats() const {
  const std::lock_guard lock(mutex_);
  return {segments_.size(), blocks_.count(), blocks_.bytes(), reserved_bytes_,
          options_.budget_bytes};
}

}  // namespace tensorbus::memory
