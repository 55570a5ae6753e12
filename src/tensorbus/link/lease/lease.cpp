#include "tensorbus/link/lease/lease.hpp"

#include <poll.h>

#include <algorithm>
#include <exception>

#include "tensorbus/device/order/deferred_releaser.hpp"
#include "tensorbus/device/order/device_watch.hpp"
#include "tensorbus/link/lease/kept_lease.hpp"

namespace tensorbus::link {

bool PeerMemory::is_over() const noexcept {
  if (!channel) return true;
  if (channel->is_loop_back()) return channel->peer_is_gone();
  // Polls as platform::peer_has_hung_up(), and the pidfd, because a child may keep the socket open.
  pollfd either[] = {{channel->fd(), POLLRDHUP, 0}, {pidfd ? pidfd->get() : -1, POLLIN, 0}};
  return ::poll(either, 2, 0) > 0;
}

bool PeerMemory::has_died() const noexcept {
  return !(wake_page && marked_alive(*wake_page)) && is_over();
}

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

PeerMemory* Lease::memory_of(const Id& owner, memory::SegmentId segment) const noexcept {
  for (const Place& place : places_)
    if (place.segment == segment && place.owner == owner) return place.memory;
  // A lender's memory that was not used yet has no places.
  return lender_ && lender_->source()->participant == owner ? lender_->peer_memory().get()
                                                            : nullptr;
}

void Lease::use_on(const device::GpuStream& stream) {
  if (!device_) return;
  for (const auto& other : device_->others) other->use_on(stream);
  use_here(stream);
}

void Lease::use_here(const device::GpuStream& stream) {
  device::Timeline* const timeline = this->timeline();
  if (timeline == nullptr) return;  // all memory belongs to the other leases
  const platform::MutexLock lock(device_->mutex);
  timeline->wait(stream, device_->whole_at);
  auto& streams = device_->streams;
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}

void Lease::use_on(const OurStream& stream) {
  if (!device_) return;
  for (const auto& other : device_->others) other->use_on(stream);
  {
    const platform::MutexLock lock(device_->mutex);
    device_->ours.push_back(stream);
  }
  use_here(stream->get());
}

bool Lease::intact() const noexcept {
  if (!device_) return true;
  for (const auto& other : device_->others)
    if (!other->intact()) return false;
  const device::Timeline* const timeline = this->timeline();
  return timeline == nullptr || !timeline->failed(device_->whole_at);
}

void Lease::list_writers(std::vector<Written>& all) const {
  if (!device_) return;
  for (const auto& other : device_->others) other->list_writers(all);
  if (timeline() != nullptr) all.push_back({lender_->peer_memory(), device_->whole_at});
}

device::DeviceKeeper::Intact Lease::intact_later() const {
  std::vector<Written> all;
  list_writers(all);
  return [all = std::move(all)] {
    return std::none_of(all.begin(), all.end(), [](const Written& one) {
      return one.by->imported.timeline()->failed(one.whole_at);
    });
  };
}

bool Lease::is_settled() const noexcept {
  if (!device_) return true;
  for (const auto& other : device_->others)
    if (!other->is_settled()) return false;
  const device::Timeline* const timeline = this->timeline();
  return timeline == nullptr || timeline->reached(device_->whole_at);
}

Lease::~Lease() {
  if (!lender_) return;
  if (lender_->forked()) {
    platform::abandon(std::move(lender_));
    platform::abandon(std::move(kept_));
    return;
  }
  give_back();
}

namespace {

bool is_broken(const device::GpuStream& stream) { return stream.device().is_broken(); }

// Returns a mark that is reached when all these streams have run the work queued so far; an empty
// mark if all of them are broken.
device::Mark signalled(const std::vector<device::GpuStream>& streams, device::Timeline& timeline) {
  if (std::all_of(streams.begin(), streams.end(), is_broken)) return {};
  for (std::size_t i = 1; i < streams.size(); ++i) streams.front().join(streams[i]);
  return timeline.signal(streams.front());
}

}  // namespace

// For memory of this process, the arena keeps the block for forked children.
void Lease::give_back(std::uint64_t mark) noexcept {
  if (token_ == 0 || !platform::may_be_inherited(born_) || lender_->peer_memory()->of_this_process)
    return lender_->give_back(*this, mark);
  lender_->leave(*this);
  if (!KeptLease::keep(lender_, token_, mark, born_)) lender_->give_back(token_, mark);
}

// A stream that is being captured into a graph cannot signal. Then DeferredReleaser tries again
// later and keeps the memory until then.
void Lease::give_back() noexcept {
  if (!device_ || device_->streams.empty()) return give_back(0);
  try {
    const device::Mark mark = signalled(device_->streams, *timeline());
    return give_back(mark.packed());
  } catch (const std::exception&) {  // tried again below
  }
  lender_->leave(*this);
  if (!device::Gpu::any_in_use()) return;  // the process ends: the owner takes everything back
  try {
    device::DeferredReleaser::retry([lender = lender_, token = token_, streams = device_->streams,
                                     ours = device_->ours, kept = kept_] {
      try {
        const device::Mark mark = signalled(streams, *lender->peer_memory()->imported.timeline());
        lender->give_back(token, mark.packed());
        return true;
      } catch (const std::exception&) {
        return false;
      }
    });
  } catch (const std::exception&) {  // no memory: stays lent and mapped forever
    platform::abandon(std::move(lender_));
    platform::abandon(std::move(kept_));
  }
}

}  // namespace tensorbus::link
