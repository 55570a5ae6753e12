#include "tensorbus/memory/free_extents.hpp"

#include <iterator>
#include <utility>

namespace tensorbus::memory {

std::optional<FreeExtents::Taken> FreeExtents::take(std::size_t bytes, std::size_t alignment) {
  const auto skipped = [alignment](const BySize& extent) {
    return (alignment - extent.offset % alignment) % alignment;
  };
  auto best = by_size_.lower_bound({bytes, 0, 0});
  while (best != by_size_.end() && best->bytes < skipped(*best) + bytes) ++best;
  if (best == by_size_.end()) return std::nullopt;
  const Extent found{best->segment, best->offset, best->bytes};
  const std::size_t before = skipped(*best);
  const std::size_t after = found.bytes - before - bytes;
  Place front;
  Place rest;
  if (before > 0) front = new_place();
  if (after > 0) rest = new_place();
  Offsets& offsets = by_address_.find(found.segment)->second;
  Place place = extract(found.segment, offsets, offsets.find(found.offset));
  if (before > 0) insert({found.segment, found.offset, before}, std::move(front));
  if (after > 0) insert({found.segment, found.offset + before + bytes, after}, std::move(rest));
  return Taken{{found.segment, found.offset + before, bytes}, std::move(place)};
}

void FreeExtents::give_back(Taken taken) noexcept {
  Extent& extent = taken.extent;
  Offsets& offsets = by_address_.find(extent.segment)->second;
  auto next = offsets.lower_bound(extent.offset);
  if (next != offsets.end() && next->first == extent.offset + extent.bytes) {
    extent.bytes += next->second;
    const auto merged = next++;
    extract(extent.segment, offsets, merged);
  }
  if (next != offsets.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == extent.offset) {
      extent.offset = previous->first;
      extent.bytes += previous->second;
      extract(extent.segment, offsets, previous);
    }
  }
  insert(extent, std::move(taken.place));
}

void FreeExtents::add(Extent extent) {
  Place place = new_place();
  by_address_.try_emplace(extent.segment);
  give_back({extent, std::move(place)});
}

void FreeExtents::forget(SegmentId segment) noexcept {
  const auto found = by_address_.find(segment);
  if (found == by_address_.end()) return;
  for (const auto& [offset, bytes] : found->second) by_size_.erase({bytes, segment, offset});
  by_address_.erase(found);
}

bool FreeExtents::covers(SegmentId segment, std::size_t bytes) const noexcept {
  const auto found = by_address_.find(segment);
  return found != by_address_.end() && found->second.size() == 1 &&
         found->second.begin()->second == bytes;
}

FreeExtents::Place FreeExtents::new_place() {
  Sizes size;
  Offsets offset;
  size.insert({0, 0, 0});
  offset.emplace(0, 0);
  Place place;
  place.by_size_ = size.extract(size.begin());
  place.by_address_ = offset.extract(offset.begin());
  return place;
}

void FreeExtents::insert(Extent extent, Place place) noexcept {
  place.by_size_.value() = {extent.bytes, extent.segment, extent.offset};
  place.by_address_.key() = extent.offset;
  place.by_address_.mapped() = extent.bytes;
  by_size_.insert(std::move(place.by_size_));
  by_address_.find(extent.segment)->second.insert(std::move(place.by_address_));
}

FreeExtents::Place FreeExtents::extract(SegmentId segment, Offsets& offsets,
                                        Offsets::iterator at) noexcept {
  Place place;
  place.by_size_ = by_size_.extract({at->second, segment, at->first});
  place.by_address_ = offsets.extract(at);
  return place;
}

}  // namespace tensorbus::memory
