#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "tensorbus/device/memory/device_memory.hpp"
#include "tensorbus/link/lease/published_sample.hpp"
#include "tensorbus/link/ring/pool_holds.hpp"
#include "tensorbus/link/wire/channel.hpp"
#include "tensorbus/link/wire/memory_messages.hpp"
#include "tensorbus/memory/host/arena.hpp"
#include "tensorbus/memory/peer_budget.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::link {

// Sends the owner's segments to one borrower, each once, before the first entry that refers to it.
// A segment that a link may write to is sent a second time, writable. Thread-safe.
class SegmentSender {
 public:
  SegmentSender(std::shared_ptr<Channel> channel, std::shared_ptr<memory::Arena> arena,
                std::shared_ptr<device::DeviceMemory> device_memory = nullptr);  // null: lends none
  ~SegmentSender();

  // Sets the account for unread messages. Called before the first message is sent.
  void pay_from(memory::PeerAccount account) { account_ = std::move(account); }
  // Sets the pidfd of the borrower's process. Memory that the process's streams use is kept until
  // the process ends. Called before the first message is sent.
  void set_peer(std::shared_ptr<const platform::Fd> pidfd);

  // Called when either side has ended the connection. A peer without a pidfd then counts as dead.
  void peer_hung_up() noexcept;

  // Throws Error(kOutOfMemory) if no descriptor is left for sending, Error(kSystem) if the borrower
  // has not read earlier messages.
  void ensure_sent(memory::SegmentId segment, memory::Grant grant);
  // Returns true if the borrower is known to have all segments of a sample.
  bool has_arrived(const PublishedSample& sample, memory::Grant grant);
  // Called when the borrower has replied to a message sent after these segments.
  void mark_arrived(const PublishedSample& sample, memory::Grant grant) noexcept;
  void retire(memory::SegmentId segment);
  // Called when the peer has closed a segment of a pool. Throws Error(kProtocol) if the peer does
  // not have it.
  void closed(memory::SegmentId segment);

  // Returns the mark of the connection's timeline at which the sample is complete; an empty mark
  // for host memory. `writer`: the stream that writes it last, if known. Throws what ensure_sent()
  // and WriteMarks throw.
  device::Mark mark_for(const PublishedRef& sample, const device::GpuStream* writer);
  // Returns true if the borrower has reached this mark, or if it is not a mark of its timeline.
  bool reached(std::uint64_t packed_mark) const noexcept;
  // Keeps a returned sample that the borrower's streams still read, until the mark is reached or
  // the borrower's process has ended. Without memory for the record, keeps it forever.
  void keep_until(std::uint64_t packed_mark, PublishedRef sample) noexcept;

 private:
  void require_reader() const TB_REQUIRES(mutex_);
  void send_device_memory(memory::SegmentId segment, memory::Grant grant) TB_REQUIRES(mutex_);
  void send_export(memory::SegmentId segment) TB_REQUIRES(mutex_);
  void send_pooled(const DeviceExport& message, const device::ForeignMemory& memory)
      TB_REQUIRES(mutex_);
  void send_chunks(DeviceExport message, const device::ForeignMemory& memory) TB_REQUIRES(mutex_);
  device::Timeline& timeline() TB_REQUIRES(mutex_);

  void send_segment(memory::SegmentId segment, memory::Grant grant);
  void send_file(memory::SegmentId segment, memory::Grant grant);

  std::shared_ptr<Channel> channel_;
  std::shared_ptr<memory::Arena> arena_;
  std::shared_ptr<device::DeviceMemory> device_memory_;
  memory::PeerAccount account_;
  platform::Mutex mutex_;
  std::shared_ptr<const platform::Fd> peer_ TB_GUARDED_BY(mutex_);
  // Made for the first sample on a device.
  std::unique_ptr<device::Timeline> made_ TB_GUARDED_BY(mutex_);
  // A copy of made_, for reads without the mutex. Release pairs with acquire.
  std::atomic<device::Timeline*> timeline_{nullptr};
  // True: the borrower has confirmed that it has the segment.
  std::map<std::pair<memory::SegmentId, memory::Grant>, bool> sent_ TB_GUARDED_BY(mutex_);
  // Rows of chunks that may have been sent in part.
  std::set<memory::SegmentId> begun_ TB_GUARDED_BY(mutex_);
  PoolHolds holds_ TB_GUARDED_BY(mutex_);
};

}  // namespace tensorbus::link
