#include "tensorbus/memory/free_extents.hpp"

#include <iterator>

namespace tensorbus::memory {

std::optional<Extent> FreeExtents::take(std::size_t bytes) {
  const auto best = by_size_.lower_bound({bytes, 0, 0});
  if (best == by_size_.end()) return std::nullopt;
  const Extent found{best->segment, best->offset, best->bytes};
  Offsets& offsets = by_address_[found.segment];
  erase(found.segment, offsets, offsets.find(found.offset));
  if (found.bytes > bytes) insert({found.segment, found.offset + bytes, found.bytes - bytes});
  return Extent{found.segment, found.offset, bytes};
}

void FreeExtents::give_back(Extent extent) {
  Offsets& offsets = by_address_[extent.segment];
  auto next = offsets.lower_bound(extent.offset);
  if (next != offsets.end() && next->first == extent.offset + extent.bytes) {
    extent.bytes += next->second;
    next = erase(extent.segment, offsets, next);
  }
  if (next != offsets.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == extent.offset) {
      extent.offset = previous->first;
      extent.bytes += previous->second;
      erase(extent.segment, offsets, previous);
    }
  }
  insert(extent);
}

void FreeExtents::forget(std::uint32_t segment) {
  const auto found = by_address_.find(segment);
  if (found == by_address_.end()) return;
  for (const auto& [offset, bytes] : found->second) by_size_.erase({bytes, segment, offset});
  by_address_.erase(found);
}

bool FreeExtents::covers(std::uint32_t segment, std::size_t bytes) const {
  const auto found = by_address_.find(segment);
  return found != by_address_.end() && found->second.size() == 1 &&
         found->second.begin()->second == bytes;
}

void FreeExtents::insert(Extent extent) {
  by_address_[extent.segment].emplace(extent.offset, extent.bytes);
  by_size_.insert({extent.bytes, extent.segment, extent.offset});
}

FreeExtents::Offsets::iterator FreeExtents::erase(std::uint32_t segment, Offsets& offsets,
                                                  Offsets::iterator at) {
  by_size_.erase({at->second, segment, at->first});
  return offsets.erase(at);
}

}  // namespace tensorbus::memory
