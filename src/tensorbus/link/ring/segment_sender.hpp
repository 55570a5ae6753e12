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
// A segment that a link may write is sent a second time, writable. Thread-safe.
class SegmentSender {
 public:
  SegmentSender(
      std::shared_ptr<Channel> channel, std::shared_ptr<memory::Arena> arena,
      std::shared_ptr<memory::DeviceMemory> device_memory = nullptr);  // null: none is lent
  ~SegmentSender();

  // Sets the account for unread messages. Called before anything is sent.
  void pay_from(memory::PeerAccount account) { account_ = std::move(account); }
  // Sets the process whose end is watched for memory that its streams still use. Called before
  // anything is sent.
  void know_peer(std::shared_ptr<const platform::Fd> pidfd);

  // The connection has ended on either side. Without a pidfd of the peer, the peer counts as dead.
  void peer_hung_up() noexcept;

  // Throws Error(kOutOfMemory) if no descriptor is left to send it by, Error(kSystem) if the
  // borrower has not read what it was sent before.
  void ensure_sent(memory::SegmentId segment, memory::Grant grant);
  // Returns true if the borrower is known to have all segments of a sample.
  bool has_arrived(const PublishedSample& sample, memory::Grant grant);
  // The borrower has answered what was sent after these segments.
  void mark_arrived(const PublishedSample& sample, memory::Grant grant) noexcept;
  void retire(memory::SegmentId segment);
  // The peer has closed a segment of a pool. Throws Error(kProtocol) if the peer does not have it.
  void closed(memory::SegmentId segment);

  // Returns a mark of the connection's timeline for when the sample is complete; none for a sample
  // in host memory. `writer`: the stream that is known to write it last. Throws what ensure_sent()
  // and WriteMarks throw.
  memory::Mark mark_for(const PublishedRef& sample, const platform::GpuStream* writer);
  // Returns true if the borrower has reached this mark, or if it is no mark of its timeline.
  bool reached(std::uint64_t packed_mark) const noexcept;
  // Keeps a returned sample, which the borrower's streams still read, until the mark is reached or
  // the borrower's process is dead. If memory is short, it is kept for ever.
  void keep_until(std::uint64_t packed_mark, PublishedRef sample) noexcept;

 private:
  void require_reader() const TB_REQUIRES(mutex_);
  void send_device_memory(memory::SegmentId segment, memory::Grant grant) TB_REQUIRES(mutex_);
  void send_export(memory::SegmentId segment) TB_REQUIRES(mutex_);
  void send_pooled(const DeviceExport& message, const platform::ForeignMemory& memory)
      TB_REQUIRES(mutex_);
  void send_chunks(DeviceExport message, const platform::ForeignMemory& memory) TB_REQUIRES(mutex_);
  memory::Timeline& timeline() TB_REQUIRES(mutex_);

  void send_segment(memory::SegmentId segment, memory::Grant grant);
  void send_file(memory::SegmentId segment, memory::Grant grant);

  std::shared_ptr<Channel> channel_;
  std::shared_ptr<memory::Arena> arena_;
  std::shared_ptr<memory::DeviceMemory> device_memory_;
  memory::PeerAccount account_;
  platform::Mutex mutex_;
  std::shared_ptr<const platform::Fd> peer_ TB_GUARDED_BY(mutex_);
  // For the first sample on a device.
  std::unique_ptr<memory::Timeline> made_ TB_GUARDED_BY(mutex_);
  // The same; read without our mutex. Release pairs with acquire.
  std::atomic<memory::Timeline*> timeline_{nullptr};
  // True: the borrower is known to have it.
  std::map<std::pair<memory::SegmentId, memory::Grant>, bool> sent_ TB_GUARDED_BY(mutex_);
  // Rows of chunks, of which some may be at the peer.
  std::set<memory::SegmentId> begun_ TB_GUARDED_BY(mutex_);
  PoolHolds holds_ TB_GUARDED_BY(mutex_);
};

}  // namespace tensorbus::link
