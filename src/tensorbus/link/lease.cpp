#include "tensorbus/link/lease.hpp"

namespace tensorbus::link {

std::optional<Place> Lease::place_of(const std::byte* first, std::size_t bytes) const {
  for (const Place& place : places_) {
    if (first < place.begin || first + bytes > place.begin + place.bytes) continue;
    Place part = place;
    part.begin = first;
    part.bytes = bytes;
    part.offset += static_cast<std::uint64_t>(first - place.begin);
    return part;
  }
  return std::nullopt;
}

}  // namespace tensorbus::link
