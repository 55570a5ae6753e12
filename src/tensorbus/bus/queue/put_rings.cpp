#include "tensorbus/bus/queue/put_rings.hpp"

#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {

void PutRings::add(const Client& client, Lender lender, platform::Fd memory) {
  drop_ended();
  if (rings_.size() >= kMax)
    throw Error(Code::kUnsupported, "this queue has the maximum number of rings");
  rings_.reserve(rings_.size() + 1);
  auto charge = client->peer_memory()->account.take(
      {.mappings = 1, .address_bytes = link::PutRingSegment::kBytes});
  auto segment = std::make_shared<link::PutRingSegment>(std::move(memory));
  const link::PutRingReader reader(*segment);
  rings_.push_back({client, std::move(lender), std::move(segment), reader, std::move(charge)});
}

PutRings::Ring* PutRings::oldest(std::uint64_t before) noexcept {
  Ring* found = nullptr;
  std::uint64_t found_at = 0;
  for (Ring& ring : rings_) {
    if (ring.now == 0) continue;
    const std::uint64_t at = ring.reader.at(0).at_ns;
    if (at >= before && ring.known == 0) continue;
    if (found != nullptr && found_at <= at) continue;
    found = &ring;
    found_at = at;
  }
  return found;
}

void PutRings::drop_ended() noexcept {
  std::erase_if(rings_, [](Ring& ring) {
    return (ring.ended || ring.reader.over()) && ring.reader.waiting() == 0;
  });
}

std::size_t PutRings::promised() const noexcept {
  std::size_t sum = 0;
  for (const Ring& ring : rings_) sum += ring.reader.promised();
  return sum;
}

void PutRings::take_back() noexcept {
  for (Ring& ring : rings_) ring.reader.take_back();
}

void PutRings::promise(std::size_t room, std::size_t most) noexcept {
  if (rings_.empty() || room == 0) return;
  const std::size_t all = room == kNoLimit ? room : room + promised();
  const auto share = static_cast<std::uint32_t>(
      std::clamp<std::size_t>(all / rings_.size(), 1, link::PutRingSegment::kSlots));
  const std::size_t fourth = most == 0 ? kChunk : most / rings_.size() / 4;
  const std::size_t least = std::clamp<std::size_t>(fourth, 1, kChunk);
  for (Ring& ring : rings_) {
    const std::uint32_t has = ring.reader.promised();
    if (ring.ended || has >= share) continue;
    const auto more = static_cast<std::uint32_t>(std::min<std::size_t>(share - has, room));
    if (more < least) continue;
    ring.reader.promise(more);
    if (room != kNoLimit) room -= more;
  }
}

bool PutRings::any_waits() noexcept {
  return std::ranges::any_of(rings_, [](Ring& ring) { return ring.reader.waiting() != 0; });
}

bool PutRings::wait(bool waits) noexcept {
  for (Ring& ring : rings_) ring.reader.wait(waits);
  return waits && any_waits();
}

std::vector<std::shared_ptr<link::PutRingSegment>> PutRings::to_sleep_on() const {
  std::vector<std::shared_ptr<link::PutRingSegment>> all;
  if (!came_last_) return all;
  all.reserve(rings_.size());
  for (const Ring& ring : rings_) all.push_back(ring.segment);
  return all;
}

void PutRings::end(const Client& client) noexcept {
  for (Ring& ring : rings_) {
    if (ring.client != client) continue;
    ring.reader.take_back();
    ring.ended = true;
  }
}

}  // namespace tensorbus::bus
