#include "tensorbus/memory/living_blocks.hpp"

namespace tensorbus::memory {

void LivingBlocks::Room::Delete::operator()(Block* block) const noexcept { delete block; }

LivingBlocks::Room::Room() : block_(new Block) {
  Living one;
  one.emplace(std::pair(0U, 0U), block_.get());
  node_ = one.extract(one.begin());
}

void Block::release() noexcept {
  // Release on the way down, acquire on the last: whoever frees sees every use before it.
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::shared_ptr<BlockHome> home = std::move(home_);
  home->free(*this);
  delete this;
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

BlockRef LivingBlocks::find(const void* address) const noexcept {
  const auto* byte = static_cast<const std::byte*>(address);
  auto segment = starts_.upper_bound(byte);
  if (segment == starts_.begin()) return {};
  --segment;
  return find(segment->second, static_cast<std::uint64_t>(byte - segment->first));
}

BlockRef LivingBlocks::find(std::uint32_t segment, std::uint64_t offset,
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
