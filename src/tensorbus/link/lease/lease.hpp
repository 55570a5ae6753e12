#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <tensorbus/internal/one_or_many.hpp>
#include <vector>

#include "tensorbus/device/memory/device_keeper.hpp"
#include "tensorbus/link/lease/lease_source.hpp"
#include "tensorbus/platform/fork/inherited.hpp"

namespace tensorbus::link {

// Where bytes that were lent to this process lie: here, and in the arena of their owner.
struct Place {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  Id owner;
  memory::SegmentId segment = 0;
  std::uint64_t offset = 0;  // of `begin`
  std::uint64_t generation = 0;
  memory::Grant grant = memory::Grant::kRead;  // what may be done with them
  PeerMemory* memory = nullptr;                // that they are mapped with; lives as the lease does
};

// This process's right to read the memory of one sample. Dropping the last reference returns it, as
// soon as no forked child has inherited it; at once if this process owns the memory.
class Lease final : public memory::DeviceKeeper, public std::enable_shared_from_this<Lease> {
 public:
  Lease() = default;  // of nothing, until begin()
  Lease(std::shared_ptr<LeaseSource> lender, std::uint64_t token) {
    begin(std::move(lender), token);
  }
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // Once, before anybody else knows of it: from now on it is of this token.
  void begin(std::shared_ptr<LeaseSource> lender, std::uint64_t token) noexcept {
    lender_ = std::move(lender);
    token_ = token;
    born_ = platform::fork_epoch();
  }
  std::uint64_t token() const noexcept { return token_; }
  // The token stays with the lender.
  void forget() noexcept { lender_.reset(); }
  // Mappings that the sample lies in, and leases of what others own of it, for as long as this one.
  template <typename T>
  void keep(const std::shared_ptr<T>& what) {  // one count more, and no other on the way
    if (kept_.empty() || kept_.back() != what) kept_.push_back(std::shared_ptr<const void>(what));
  }

  // It is of memory of a device, which is whole when the owner's mark is reached.
  void on_device(memory::Mark whole_at) { device_ = std::make_unique<DeviceUse>(whole_at); }
  bool is_on_device() const noexcept { return device_ != nullptr; }
  // Whatever uses this one uses the other, too.
  void use_with(std::shared_ptr<Lease> other) { device_->others.push_back(std::move(other)); }
  void use_on(const platform::GpuStream& stream) override;
  void use_on(const OurStream& stream) override;
  bool intact() const noexcept override;
  Intact intact_later() const override;
  // Will intact() never change any more? It is whole, or its owners are dead.
  bool is_settled() const noexcept;

  void add(const Place& place) { places_.push_back(place); }
  const OneOrMany<Place>& places() const noexcept { return places_; }
  // The memory of this owner that what is leased here lies in, as far as it is in this segment.
  // Null: none. It lives as long as the lease does.
  PeerMemory* memory_of(const Id& owner, memory::SegmentId segment) const noexcept;
  // Where these bytes lie, if all of them are leased here.
  std::optional<Place> place_of(const std::byte* first, std::size_t bytes) const;

 private:
  struct DeviceUse {
    explicit DeviceUse(memory::Mark mark) : whole_at(mark) {}
    const memory::Mark whole_at;
    std::vector<std::shared_ptr<Lease>> others;
    std::mutex mutex;
    std::vector<platform::GpuStream> streams;  // that use it
    std::vector<OurStream> ours;               // among them
  };
  struct Written {  // when the owner's mark is reached
    std::shared_ptr<PeerMemory> by;
    memory::Mark whole_at;
  };
  void use_here(const platform::GpuStream& stream);
  void list_writers(std::vector<Written>& all) const;
  memory::Timeline* timeline() const noexcept { return lender_->connected()->imported.timeline(); }
  void give_back() noexcept;
  void give_back(std::uint64_t mark) noexcept;

  std::shared_ptr<LeaseSource> lender_;
  std::uint64_t token_ = 0;
  platform::ForkEpoch born_ = 0;
  std::unique_ptr<DeviceUse> device_;
  OneOrMany<std::shared_ptr<const void>> kept_;
  OneOrMany<Place> places_;
};

// A lease, and where in it something lies.
struct Leased {
  std::shared_ptr<const Lease> lease;
  Place place;
};

}  // namespace tensorbus::link
