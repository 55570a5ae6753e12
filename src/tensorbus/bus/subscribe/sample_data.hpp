#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <tensorbus/internal/one_or_many.hpp>
#include <vector>

#include "tensorbus/bus/session/acquired_leases.hpp"
#include "tensorbus/bus/session/host_copy_request.hpp"
#include "tensorbus/bus/session/lent_sample.hpp"
#include "tensorbus/bus/subscribe/receive_options.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/bus/subscribe/sample_cache.hpp"
#include "tensorbus/link/lease/lease.hpp"
#include "tensorbus/link/ring/sample_ring.hpp"
#include "tensorbus/link/trace/traced_sample.hpp"
#include "tensorbus/tensor/descriptor.hpp"
#include "tensorbus/tensor/mcap/message_head.hpp"

namespace tensorbus::bus {

// The contents of a Sample, which owns them. Used by one thread.
struct SampleData {
  SampleHeader header;
  OneOrMany<Tensor> tensors;
  std::span<const std::byte> fields;
  // For a sample of a mirror, else null; valid as long as the topic's name.
  const link::MirrorOrigin* mirrored = nullptr;
  // A private copy of the descriptor, into which `fields` points.
  std::array<std::byte, link::kInlineBytes> inline_bytes;
  std::vector<std::byte> block_bytes;
  // Keeps the topic's name, unless the lease of a tensor keeps it.
  std::shared_ptr<const link::Source> source;
  std::shared_ptr<DeviceCopier> copier;              // for a sample with tensors on devices
  std::shared_ptr<const link::TracedSample> traced;  // null: it came without a tracer

  // Reads an entry. kDone: the sample has taken over the entry's lease. kFieldsAlone: the sample
  // uses no memory of the lender, and the caller returns the lease. After any other result, and
  // after Error(kOutOfMemory) or std::bad_alloc (no memory or mappings), the caller keeps the
  // lease. After any other Error (a malformed descriptor, a GPU that cannot be used) the lease was
  // returned. kSegmentMissing: a segment has not arrived yet. kNotAcquired: part of the sample has
  // other owners than the lender, and `acquired` is null. kHalfWritten: the owner died before the
  // GPU had written the sample. kOutOfReach: part of the sample lies on a device that this process
  // cannot use, and `acquired` has no copy. `spare`: parts that the sample may use.
  enum class Read { kDone, kFieldsAlone, kSegmentMissing, kNotAcquired, kHalfWritten, kOutOfReach };
  template <typename LeaseSource>
  [[nodiscard]] static Read read(Sample& sample, const std::shared_ptr<LeaseSource>& lender,
                                 const link::Entry& entry, const ReceiveOptions& how,
                                 SampleCache& spare, const AcquiredLeases* acquired = nullptr) {
    // Takes no reference to the lender: counting a reference takes as long as reading some fields.
    if (entry.is_inline() && !tensor::Descriptor::has_tensors(entry.inline_bytes))
      return read_fields(sample, *lender, entry);
    return read_lent(sample, lender, entry, how, spare, acquired);
  }
  // Reads a sample that was lent by message. With kDone, the sample takes the lender's lease. After
  // an Error of the descriptor, this lease was returned. Otherwise `held` keeps it. `held` always
  // keeps its other leases.
  [[nodiscard]] static Read read(Sample& sample, LentSample& held, const ReceiveOptions& how);
  // Reads a sample in host memory, and keeps `held` as long as the sample needs it. Other threads
  // may read `held`, too. Returns false if a part of it is on a device, not mapped here, or lent
  // for another access. Throws like read(). Reads a sample without tensors as read_fields() does.
  [[nodiscard]] static bool read_held(Sample& sample, const LentRef& held,
                                      const ReceiveOptions& how);
  // Reads a sample without tensors: copies its descriptor. `held` keeps its leases.
  static void read_fields(Sample& sample, const LentSample& held);
  // Returns the descriptor, without fields, of an entry that read() could not read completely.
  static tensor::Descriptor handed_on(link::LeaseSource& lender, const link::Entry& entry);
  // Returns the tensors of an entry for which read() returned kOutOfReach.
  static std::vector<OutOfReach> out_of_reach(link::LeaseSource& lender,
                                              const tensor::Descriptor& descriptor,
                                              const AcquiredLeases* acquired,
                                              const ReceiveOptions& how);
  static Sample copy_of(const SampleData& original);
  // Moves tensors that lie in host memory, and were published on a device, to `device`.
  static void put_on_device(Sample& sample, const std::shared_ptr<DeviceCopier>& copier,
                            const Device& device);
  // Returns a sample of one writable tensor, which lies in memory of another program.
  static Sample of_memory(std::shared_ptr<device::DeviceKeeper> keeper, const Device& device,
                          const Layout& layout, const std::byte* first);
  // Returns a sample whose read-only tensors lie in a mapped file, at these offsets from `data`.
  // `fields` point into `head`, which the sample takes. An unaligned tensor is copied.
  static Sample of_file(const SampleHeader& header, std::shared_ptr<const link::Source> source,
                        std::vector<std::byte> head, const tensor::mcap::MessageHead& decoded,
                        const std::byte* data, const std::shared_ptr<const void>& keeper);
  // Records in the ring that the sample was received, and later when it is used and released.
  // Without memory for this, the sample is not traced.
  static void trace(Sample& sample, const std::shared_ptr<link::TraceRing>& ring) noexcept;
  // Returns the lease of a sample; null if it has none.
  static std::shared_ptr<link::Lease> lease_of(const Sample& sample);

 private:
  static Read read_lent(Sample& sample, std::shared_ptr<link::LeaseSource> lender,
                        const link::Entry& entry, const ReceiveOptions& how, SampleCache& spare,
                        const AcquiredLeases* acquired);
  static bool read_alone(Sample& sample, std::shared_ptr<link::LeaseSource>& lender,
                         const link::Entry& entry, Access access, SampleCache& spare);
  static Read read_fields(Sample& sample, link::LeaseSource& lender, const link::Entry& entry);
  // Changes only `lease` and the mappings until the result is certain.
  static Read read_leased(Sample& sample, link::LeaseSource& lender, const link::Entry& entry,
                          const ReceiveOptions& how, const AcquiredLeases* acquired,
                          std::span<const std::byte> bytes, std::shared_ptr<link::Lease>& lease);
  bool is_of_fields() const noexcept {
    return tensors.empty() && block_bytes.empty() && !copier && !traced;
  }
  // Fills in everything except the tensors.
  void describe(const link::Entry& entry, const link::LeaseSource& from,
                std::span<const std::byte> small_fields, const std::optional<Origin>& origin);
  Tensor* give_keepers(const std::shared_ptr<link::Lease>& lease) noexcept;
  void move_to_own_pages(link::LeaseSource& lender, const AcquiredLeases* acquired,
                         const tensor::Descriptor& descriptor, link::Lease& lease);
  // Moves tensors that came in host memory to a device, into a block of this participant.
  void restore(const ReceiveOptions& how, const AcquiredLeases& acquired);
  void move_to(const std::shared_ptr<DeviceCopier>& by, const Device& device,
               std::span<Tensor* const> moving, std::shared_ptr<const void> read);
  // Copies those of the originals that lie on devices, and makes the tensors refer to the copies.
  void copy_on_devices(DeviceCopier& by, std::span<const Tensor> originals);
  static void place_in(Tensor& tensor, const std::byte* original, const DevicePlan& plan,
                       const std::shared_ptr<device::OwnBlock>& block, const Device& device);
  void copy_block(std::span<const std::byte> descriptor);
  std::span<const std::byte> copy(std::span<const std::byte> descriptor, const link::Entry& entry);
};

}  // namespace tensorbus::bus
