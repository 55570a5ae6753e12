#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "tensorbus/device/memory/device_memory.hpp"
#include "tensorbus/link/lease/published_sample.hpp"
#include "tensorbus/link/ring/pool_holds.hpp"
#include "tensorbus/link/wire/channel.hpp"
#include "tensorbus/link/wire/memory_messages.hpp"
#include "tensorbus/memory/host/arena.hpp"
#include "tensorbus/memory/peer_budget.hpp"

namespace tensorbus::link {

// Passes the owner's segments to one borrower, before the first entry that refers to one is pushed,
// and each once; once more to be written, if a link may do that. Thread-safe.
class SegmentSender {
 public:
  SegmentSender(
      std::shared_ptr<Channel> channel, std::shared_ptr<memory::Arena> arena,
      std::shared_ptr<memory::DeviceMemory> device_memory = nullptr);  // null: none is lent
  ~SegmentSender();

  // Who pays for what it does not read. Before anything is sent.
  void pay_from(memory::PeerAccount account) { account_ = std::move(account); }
  // Whose end is awaited with what its streams still use. Before anything is sent.
  void know_peer(std::shared_ptr<const platform::Fd> pidfd);

  // The peer has hung up, or we have. It is dead for who has no pidfd of it.
  void peer_hung_up() noexcept;

  // Throws Error(kOutOfMemory) when there is no descriptor left to pass it by, Error(kSystem) when
  // the borrower has not read what it was passed before.
  void ensure_sent(memory::SegmentId segment, memory::Grant grant);
  void retire(memory::SegmentId segment);
  // The peer has closed a segment of a pool. Throws Error(kProtocol) if it has none of it.
  void closed(memory::SegmentId segment);

  // A mark of the connection's timeline for when the sample is whole; none for one in host memory.
  // `writer`: the stream that the caller knows to write it last. Throws what ensure_sent() and
  // WriteMarks throw.
  memory::Mark mark_for(const PublishedRef& sample, const platform::GpuStream* writer);
  // Has the borrower got that far? True for what is no mark of its timeline.
  bool reached(std::uint64_t packed_mark) const noexcept;
  // Until it is, or the borrower's process is dead. For what it has returned, and is through with
  // but for its streams. Without memory for that, for good.
  void keep_until(std::uint64_t packed_mark, PublishedRef sample) noexcept;

 private:
  void require_reader() const;
  void send_device_memory(memory::SegmentId segment, memory::Grant grant);
  void send_export(memory::SegmentId segment);
  void send_pooled(const DeviceExport& message, const platform::ForeignMemory& memory);
  void send_chunks(DeviceExport message, const platform::ForeignMemory& memory);
  memory::Timeline& timeline();

  void send_segment(memory::SegmentId segment, memory::Grant grant);
  void send_file(memory::SegmentId segment, memory::Grant grant);

  std::shared_ptr<Channel> channel_;
  std::shared_ptr<memory::Arena> arena_;
  std::shared_ptr<memory::DeviceMemory> device_memory_;
  memory::PeerAccount account_;
  std::mutex mutex_;
  std::shared_ptr<const platform::Fd> peer_;
  std::unique_ptr<memory::Timeline> made_;  // for the first sample on a device
  // The same; read without our mutex. Release pairs with acquire.
  std::atomic<memory::Timeline*> timeline_{nullptr};
  std::set<std::pair<memory::SegmentId, memory::Grant>> sent_;
  std::set<memory::SegmentId> begun_;  // rows of chunks, of which some may be at the peer
  PoolHolds holds_;
};

}  // namespace tensorbus::link
