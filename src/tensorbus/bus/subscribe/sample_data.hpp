#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <tensorbus/internal/one_or_many.hpp>
#include <utility>
#include <vector>

#include "tensorbus/bus/session/acquired_leases.hpp"
#include "tensorbus/bus/session/host_copy_request.hpp"
#include "tensorbus/bus/session/lent_sample.hpp"
#include "tensorbus/bus/subscribe/receive_options.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/bus/subscribe/sample_cache.hpp"
#include "tensorbus/link/lease/lease.hpp"
#include "tensorbus/link/ring/sample_ring.hpp"
#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::bus {

// What a Sample holds.
struct SampleData {
  SampleHeader header;
  OneOrMany<Tensor> tensors;
  std::span<const std::byte> fields;
  // A private copy of the descriptor, which `fields` points into.
  std::array<std::byte, link::kInlineBytes> inline_bytes;
  std::vector<std::byte> block_bytes;
  // Where the topic's name is, unless the lease of a tensor keeps it.
  std::shared_ptr<const link::Source> source;
  std::shared_ptr<DeviceCopier> copier;  // of a sample with tensors on devices

  // Reads an entry whose lease the caller hands over. kSegmentMissing: one has not arrived yet.
  // kNotClaimed: some of it belongs to others than the lender, and `claimed` is null. kHalfWritten:
  // its owner died before the GPU had written it. kOutOfReach: some of it lies on a device that
  // this process cannot use, and `claimed` has no copy of that. With each of these the lease is
  // still the caller's. It is, too, when Error(kOutOfMemory) or std::bad_alloc is thrown: there is
  // no room for the sample's records, or for mappings or memory of its own. Any other Error is for
  // a descriptor that makes no sense; then the lease has gone back. kFieldsAlone: done, and nothing
  // of the lender is used any more: the lease is the caller's to give back. `spare`: what the
  // sample may be made of.
  enum class Read { kDone, kFieldsAlone, kSegmentMissing, kNotClaimed, kHalfWritten, kOutOfReach };
  template <typename LeaseSource>
  [[nodiscard]] static Read read(Sample& sample, const std::shared_ptr<LeaseSource>& lender,
                                 const link::Entry& entry, const ReceiveOptions& how,
                                 SampleCache& spare, const AcquiredLeases* claimed = nullptr) {
    // Without a reference to the lender: to count one takes as long as to read some fields.
    if (entry.is_inline() && !Descriptor::has_tensors(entry.inline_bytes))
      return read_fields(sample, *lender, entry);
    return read_lent(sample, lender, entry, how, spare, claimed);
  }
  // The same of what was lent by message, which is the sample's when kDone is returned, nobody's
  // after an Error of its descriptor, and the caller's else. All of it is claimed.
  [[nodiscard]] static Read read(Sample& sample, LentSample& held, const ReceiveOptions& how);
  // Of an entry of which read() said kNotClaimed: owners and tensors, without the fields.
  static Descriptor handed_on(link::LeaseSource& lender, const link::Entry& entry);
  // Of one of which it said kOutOfReach.
  static std::vector<OutOfReach> out_of_reach(link::LeaseSource& lender,
                                              const Descriptor& descriptor,
                                              const AcquiredLeases* claimed);
  static Sample copy_of(const SampleData& original);
  // Null of a sample that nobody has lent.
  static std::shared_ptr<link::Lease> lease_of(const Sample& sample);

 private:
  static Read read_lent(Sample& sample, std::shared_ptr<link::LeaseSource> lender,
                        const link::Entry& entry, const ReceiveOptions& how, SampleCache& spare,
                        const AcquiredLeases* claimed);
  static bool read_alone(Sample& sample, std::shared_ptr<link::LeaseSource>& lender,
                         const link::Entry& entry, Access access, SampleCache& spare);
  static Read read_fields(Sample& sample, link::LeaseSource& lender, const link::Entry& entry);
  // Nothing but `lease` and the mappings is touched before it is certain that there is a sample.
  static Read read_leased(Sample& sample, link::LeaseSource& lender, const link::Entry& entry,
                          const ReceiveOptions& how, const AcquiredLeases* claimed,
                          std::span<const std::byte> bytes, std::shared_ptr<link::Lease>& lease);
  bool is_of_fields() const noexcept { return tensors.empty() && block_bytes.empty() && !copier; }
  // All but the tensors.
  void describe(const link::Entry& entry, const link::LeaseSource& from,
                std::span<const std::byte> small_fields, const std::optional<Origin>& origin);
  Tensor* give_keepers(const std::shared_ptr<link::Lease>& lease) noexcept;
  void move_to_own_pages(link::LeaseSource& lender, const AcquiredLeases* claimed,
                         const Descriptor& descriptor, link::Lease& lease);
  // What came in host memory goes back to a device, in a block of our own.
  void restore(const ReceiveOptions& how, const AcquiredLeases& claimed);
  // Its tensors on devices lie in copies of those then.
  void copy_on_devices(DeviceCopier& by, std::span<const Tensor> originals);
  static void place_in(Tensor& tensor, const std::byte* original, const DevicePlan& plan,
                       const std::shared_ptr<memory::OwnBlock>& block, const Device& device);
  void copy_block(std::span<const std::byte> descriptor);
  std::span<const std::byte> copy(std::span<const std::byte> descriptor, const link::Entry& entry);
};

}  // namespace tensorbus::bus
