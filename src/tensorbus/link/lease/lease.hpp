#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <tensorbus/internal/one_or_many.hpp>
#include <vector>

#include "tensorbus/device/memory/device_keeper.hpp"
#include "tensorbus/link/lease/lease_source.hpp"
#include "tensorbus/platform/fork/inherited.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::link {

// The place of lent bytes, in this process and in the arena of their owner.
struct Place {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  Id owner;
  memory::SegmentId segment = 0;
  std::uint64_t offset = 0;  // of `begin`, in the segment
  std::uint64_t generation = 0;
  memory::Grant grant = memory::Grant::kRead;  // the access that this process has to the bytes
  PeerMemory* memory = nullptr;                // maps the bytes; valid as long as the lease
};

// This process's right to read the memory of one sample. When its last reference is dropped, in any
// thread, its token is returned: at once if this process owns the memory, else when no forked child
// has inherited it.
class Lease final : public device::DeviceKeeper, public std::enable_shared_from_this<Lease> {
 public:
  Lease() = default;  // without a token, until begin()
  Lease(std::shared_ptr<LeaseSource> lender, std::uint64_t token) {
    begin(std::move(lender), token);
  }
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // Gives the lease its token. Called once, before another thread can use the lease.
  void begin(std::shared_ptr<LeaseSource> lender, std::uint64_t token) noexcept {
    lender_ = std::move(lender);
    token_ = token;
    born_ = platform::fork_epoch();
  }
  std::uint64_t token() const noexcept { return token_; }
  // Drops the lender, so that the token is not returned.
  void forget() noexcept { lender_.reset(); }
  // Keeps mappings of the sample, and leases of other owners' memory, as long as this lease.
  template <typename T>
  void keep(const std::shared_ptr<T>& what) {  // increments one reference count only
    if (kept_.empty() || kept_.back() != what) kept_.push_back(std::shared_ptr<const void>(what));
  }

  // Marks the lease as one of GPU memory, which is completely written at the owner's mark.
  void on_device(device::Mark whole_at) { device_ = std::make_unique<DeviceUse>(whole_at); }
  bool is_on_device() const noexcept { return device_ != nullptr; }
  // Each stream that uses this lease also uses `other`.
  void use_with(std::shared_ptr<Lease> other) { device_->others.push_back(std::move(other)); }
  void use_on(const device::GpuStream& stream) override;
  void use_on(const OurStream& stream) override;
  bool intact() const noexcept override;
  Intact intact_later() const override;
  // Returns true if intact() cannot change any more: all is written, or the owners have ended.
  bool is_settled() const noexcept;

  void add(const Place& place) { places_.push_back(place); }
  const OneOrMany<Place>& places() const noexcept { return places_; }
  // Returns the memory of this owner if this segment of it is leased here, else null. Valid as long
  // as the lease.
  PeerMemory* memory_of(const Id& owner, memory::SegmentId segment) const noexcept;
  // Returns the place of these bytes, if all of them are leased here.
  std::optional<Place> place_of(const std::byte* first, std::size_t bytes) const;

 private:
  struct DeviceUse {
    explicit DeviceUse(device::Mark mark) : whole_at(mark) {}
    const device::Mark whole_at;
    std::vector<std::shared_ptr<Lease>> others;
    platform::Mutex mutex;
    std::vector<device::GpuStream> streams TB_GUARDED_BY(mutex);  // that use the lease
    std::vector<OurStream> ours TB_GUARDED_BY(mutex);             // keeps some of these alive
  };
  struct Written {  // memory of `by` that is completely written at the mark
    std::shared_ptr<PeerMemory> by;
    device::Mark whole_at;
  };
  void use_here(const device::GpuStream& stream);
  void list_writers(std::vector<Written>& all) const;
  device::Timeline* timeline() const noexcept {
    return lender_->peer_memory()->imported.timeline();
  }
  // Called by the destructor only, when no other thread can use the lease.
  void give_back() noexcept TB_NO_THREAD_SAFETY_ANALYSIS;
  void give_back(std::uint64_t mark) noexcept;

  std::shared_ptr<LeaseSource> lender_;
  std::uint64_t token_ = 0;
  platform::ForkEpoch born_ = 0;
  std::unique_ptr<DeviceUse> device_;
  OneOrMany<std::shared_ptr<const void>> kept_;
  OneOrMany<Place> places_;
};

// A lease, and the place of bytes in it.
struct Leased {
  std::shared_ptr<const Lease> lease;
  Place place;
};

}  // namespace tensorbus::link
