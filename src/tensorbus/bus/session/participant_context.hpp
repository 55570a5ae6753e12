#pragma once

#include <functional>
#include <memory>
#include <tensorbus/values/id.hpp>
#include <utility>
#include <vector>

#include "tensorbus/bus/copy/device_copier.hpp"
#include "tensorbus/bus/event_loop/event_loop.hpp"
#include "tensorbus/bus/event_loop/peer_log.hpp"
#include "tensorbus/bus/inspect/report_codec.hpp"
#include "tensorbus/bus/session/taken_items.hpp"
#include "tensorbus/bus/share/shares.hpp"
#include "tensorbus/device/memory/device_memory.hpp"
#include "tensorbus/device/transfer/host_copies.hpp"
#include "tensorbus/link/ring/lease_index.hpp"
#include "tensorbus/link/wake/wake.hpp"
#include "tensorbus/link/wire/delayed_sender.hpp"
#include "tensorbus/link/wire/lease_messages.hpp"
#include "tensorbus/memory/host/arena.hpp"
#include "tensorbus/memory/peer_budget.hpp"

namespace tensorbus::bus {

class PeerSession;
class QueueRequests;
class Tracing;

// The parts of a participant that its connections and clients of queues use. Owned by the
// participant. Outlives connections and clients.
struct ParticipantContext {
  Id self;
  EventLoop& loop;
  std::shared_ptr<memory::Arena> arena;
  std::shared_ptr<device::DeviceMemory> device_memory;
  std::shared_ptr<link::WakePage> wake_page;
  std::shared_ptr<DeviceCopier> copier{};
  Shares shares{};
  std::shared_ptr<link::DelayedSender> delayed{};  // null: no return is delayed
  std::shared_ptr<link::LeaseIndex> lent = std::make_shared<link::LeaseIndex>();
  std::shared_ptr<memory::PeerBudget> peers = std::make_shared<memory::PeerBudget>();
  TakenItems taken_items{};  // of queues of any process

  // Runs `task` on the event loop. Any thread.
  void post(std::function<void(ParticipantContext&)> task) {
    loop.post([this, task = std::move(task)] { task(*this); });
  }
  // See EventLoop::run_or_post().
  void run_or_post(std::function<void(ParticipantContext&)> task, bool after_messages = false) {
    loop.run_or_post([this, task = std::move(task)] { task(*this); }, after_messages);
  }
  // See EventLoop::run_now().
  template <typename Work>
  bool run_now(const Work& work, bool after_messages = false) {
    const auto in_turn = [&] { work(*this); };
    return loop.run_now(in_turn, after_messages);
  }
  // See EventLoop::run_in_turn().
  template <typename Work>
  bool run_in_turn(const Work& work) {
    const auto in_turn = [&] { work(*this); };
    return loop.run_in_turn(in_turn);
  }

  // Returns the block of this participant that a peer identifies by these values; an empty
  // reference if it is gone. Any thread.
  memory::BlockRef find_block(memory::SegmentId segment, std::uint64_t offset,
                              std::uint64_t generation) const noexcept {
    return segment.on_device() ? device_memory->find(segment, offset, generation)
                               : arena->find(segment, offset, generation);
  }

  // The members below are for the event loop only.
  PeerLog log{};
  std::shared_ptr<Tracing> tracing{};       // empty: no tracing
  std::shared_ptr<QueueRequests> queues{};  // empty: this participant has no queues
  std::unique_ptr<device::HostCopies> host_copies{};
  // Called when a session has ended.
  std::function<void()> on_session_end = [] {};
  // Keeps or drops a share of a peer. Throws Error(kProtocol).
  std::function<void(const std::shared_ptr<PeerSession>&, const link::Keep&)> keep =
      [](const std::shared_ptr<PeerSession>&, const link::Keep&) {};
  // Returns the report on this participant, encoded by encode_report().
  std::function<std::vector<std::byte>()> report = [] { return encode_report({}); };
  // Calls on_reached with the session with another participant, or null if that participant is
  // dead.
  using OnReached = std::function<void(const std::shared_ptr<PeerSession>&)>;
  std::function<void(const Id&, OnReached)> reach = [](const Id&, const OnReached& on_reached) {
    on_reached(nullptr);
  };
  // Serves the other end of a connection of this participant with itself. Returns its channel; null
  // if it was refused.
  std::function<std::shared_ptr<link::Channel>(platform::Fd socket)> accept_own =
      [](const platform::Fd&) { return nullptr; };
  // Returns true if no process listens at the participant's socket.
  std::function<bool(const Id&)> is_dead = [](const Id&) { return true; };
  // Returns the memory mapped here that a dead participant had lent.
  std::function<std::vector<std::shared_ptr<link::PeerMemory>>(const Id& owner)>
      orphaned_memory_of =
          [](const Id&) { return std::vector<std::shared_ptr<link::PeerMemory>>(); };
};

}  // namespace tensorbus::bus
