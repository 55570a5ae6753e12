#include "tensorbus/link/lease.hpp"

#include <algorithm>
#include <exception>

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

void Lease::use_on(const platform::CudaStream& stream) {
  if (!device_) return;
  for (const auto& other : device_->others) other->use_on(stream);
  memory::Timeline* const timeline = this->timeline();
  if (timeline == nullptr) return;  // all of it belongs to the others
  const std::lock_guard lock(device_->mutex);
  timeline->wait(stream, device_->whole_at);
  auto& streams = device_->streams;
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}

bool Lease::intact() const noexcept {
  if (!device_) return true;
  for (const auto& other : device_->others)
    if (!other->intact()) return false;
  const memory::Timeline* const timeline = this->timeline();
  return timeline == nullptr || !timeline->failed(device_->whole_at);
}

std::optional<std::uint64_t> Lease::last_use() noexcept {
  if (!device_ || device_->streams.empty()) return 0;
  if (!platform::CudaDriver::usable()) return std::nullopt;  // the process ends
  try {
    const auto& streams = device_->streams;
    for (std::size_t i = 1; i < streams.size(); ++i) streams.front().join(streams[i]);
    return timeline()->signal(streams.front()).packed();
  } catch (const std::exception&) {  // captured into a graph, say, or the device is lost
    return std::nullopt;
  }
}

}  // namespace tensorbus::link
