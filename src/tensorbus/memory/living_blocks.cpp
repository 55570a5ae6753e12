#include "tensorbus/memory/living_blocks.hpp"

#include <algorithm>

#include "tensorbus/platform/check.hpp"

namespace tensorbus::memory {

void LivingBlocks::Room::Delete::operator()(Block* block) const noexcept { delete block; }

LivingBlocks::~LivingBlocks() {
  for (Block* const block : resting()) delete block;
}

LivingBlocks::Room::Room() : block_(new Block) {
  Living one;
  one.emplace(std::pair(0U, 0U), block_.get());
  node_ = one.extract(one.begin());
}

void Block::release() noexcept {
  // Release, and acquire for the last one: the thread that frees the block sees every earlier use.
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::shared_ptr<BlockHome> home = std::move(home_);
  if (home->free(*this)) delete this;
}

void Block::let_go() noexcept {
  const std::shared_ptr<BlockHome> home = std::move(home_);
  if (home->free(*this)) delete this;
}

BlockRef Block::another() noexcept {
  std::uint32_t references = references_.load(std::memory_order_relaxed);
  while (references != 0)
    if (references_.compare_exchange_weak(references, references + 1, std::memory_order_relaxed))
      return BlockRef(this);
  return {};
}

BlockRef LivingBlocks::enter(Room room, std::shared_ptr<BlockHome> home, const BlockPlace& place,
                             FreeExtents::Place free_place) noexcept {
  Block& block = *room.block_;
  block.home_ = std::move(home);
  block.place_ = place;
  block.free_place_ = std::move(free_place);
  block.generation_ = next_generation_++;
  block.be_born();
  room.node_.key() = {place.segment, place.offset};
  living_.insert(std::move(room.node_));
  bytes_ += place.bytes;
  return BlockRef(room.block_.release());
}

FreeExtents::Taken LivingBlocks::remove(Block& block) noexcept {
  const BlockPlace& place = block.place_;
  living_.erase({place.segment, place.offset});
  bytes_ -= place.bytes;
  return {{place.segment, place.offset, place.bytes}, std::move(block.free_place_)};
}

void LivingBlocks::rest(Block& block) noexcept {
  check(!all_rest());
  bytes_ -= block.bytes();
  resting_[resting_count_++] = &block;
}

BlockRef LivingBlocks::wake(std::size_t bytes, PoolId pool,
                            std::shared_ptr<BlockHome> home) noexcept {
  for (std::size_t i = resting_count_; i-- > 0;) {
    Block& block = *resting_[i];
    if (block.bytes() != bytes || block.pool() != pool) continue;
    take_from_resting(i);
    bytes_ += bytes;
    block.begin_again(std::move(home), next_generation_++);
    return BlockRef(&block);
  }
  return {};
}

FreeExtents::Taken LivingBlocks::end_rest() noexcept {
  Block* const block = resting_.front();
  take_from_resting(0);
  bytes_ += block->bytes();
  FreeExtents::Taken taken = remove(*block);
  delete block;
  return taken;
}

void LivingBlocks::take_from_resting(std::size_t index) noexcept {
  std::copy(resting_.begin() + index + 1, resting_.begin() + resting_count_,
            resting_.begin() + index);
  --resting_count_;
}

void Block::begin_again(std::shared_ptr<BlockHome> home, std::uint64_t generation) noexcept {
  home_ = std::move(home);
  generation_ = generation;
  be_born();
  references_.store(1, std::memory_order_relaxed);
  write_mark_.store(0, std::memory_order_relaxed);
  published_.store(false, std::memory_order_relaxed);
  persistent_ = false;
  born_as_array_ = false;
}

BlockRef LivingBlocks::find(const void* address) const noexcept {
  const auto* byte = static_cast<const std::byte*>(address);
  auto at = segments_.upper_bound(byte);
  if (at == segments_.begin()) return {};
  --at;
  const auto offset = static_cast<std::uint64_t>(byte - at->first);
  if (offset >= at->second.bytes) return {};  // usually the program's own memory
  return find(at->second.segment, offset);
}

BlockRef LivingBlocks::find(SegmentId segment, std::uint64_t offset,
                            std::uint64_t generation) const noexcept {
  auto at = living_.upper_bound({segment, offset});
  if (at == living_.begin()) return {};
  Block* block = (--at)->second;
  const BlockPlace& place = block->place_;
  if (place.segment != segment || offset >= place.offset + place.bytes) return {};
  if (generation != 0 && block->generation_ != generation) return {};
  return block->another();
}

}  // namespace tensorbus::memory
