#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/outcome.hpp>
#include <vector>

#include "tensorbus/bus/queue/mirror_events.hpp"
#include "tensorbus/bus/queue/mirror_table.hpp"
#include "tensorbus/bus/session/participant_context.hpp"
#include "tensorbus/bus/session/peer_session.hpp"
#include "tensorbus/link/lease/published_sample.hpp"
#include "tensorbus/link/ring/sample_ring.hpp"

namespace tensorbus::bus {

// An item of a mirror, in memory of this participant.
struct MirrorItem {
  link::Entry entry{};
  link::PublishedRef issued{};
};

// A mirror among the queues of a participant: serves its local clients, and passes events for its
// home to MirrorEvents. On the event loop only.
class MirrorServer : public std::enable_shared_from_this<MirrorServer> {
 public:
  using Client = std::shared_ptr<PeerSession>;

  MirrorServer(ParticipantContext& context, bool redeliver, std::shared_ptr<MirrorEvents> events)
      : context_(context), events_(std::move(events)), table_(redeliver) {}

  // Messages of clients, as in QueueRequests.
  void on_put(const Client& from, const link::Put& asked);
  void on_get(const Client& from, const link::Get& asked);
  void on_call(const Client& from, const link::QueueCall& asked);
  void on_take(const Client& from, const link::Take& taken);
  void on_cancel(const Client& from, const link::Cancel& cancelled);
  void forget(const Client& client);

  // Calls of the home: see mirror_queue.hpp.
  void offer(std::uint64_t tag, MirrorItem item);
  bool withdraw(std::uint64_t tag);
  std::vector<std::uint64_t> surplus() const { return table_.surplus(); }
  void answer(std::uint64_t id, Outcome outcome, const link::ReplyValues& values);
  void deny(std::uint64_t id, const Error& why);
  void end_gets(std::optional<std::uint64_t> died);
  // Denies all waiting requests.
  void close();
  // Returns the part of the queue that is in this process.
  const QueueTable<Client, MirrorItem>& items() const noexcept { return table_.table(); }

 private:
  using Table = MirrorTable<Client, MirrorItem>;
  struct Port;

  ParticipantContext& context_;
  const std::shared_ptr<MirrorEvents> events_;
  Table table_;
  bool closed_ = false;  // items that come later are dropped
};

}  // namespace tensorbus::bus
