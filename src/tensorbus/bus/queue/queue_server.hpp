#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <tensorbus/values/inspected.hpp>
#include <tensorbus/values/options.hpp>
#include <vector>

#include "tensorbus/bus/queue/get_ring.hpp"
#include "tensorbus/bus/queue/mirror_server.hpp"
#include "tensorbus/bus/queue/put_rings.hpp"
#include "tensorbus/bus/queue/queue_table.hpp"
#include "tensorbus/bus/session/lent_sample.hpp"
#include "tensorbus/bus/session/participant_context.hpp"
#include "tensorbus/bus/session/peer_session.hpp"
#include "tensorbus/bus/session/queue_requests.hpp"
#include "tensorbus/link/wire/queue_messages.hpp"

namespace tensorbus::bus {

// The queues of a participant. Owned by its ParticipantContext. On the event loop only.
class QueueServer final : public QueueRequests {
 public:
  explicit QueueServer(ParticipantContext& context);

  link::QueueName make(const QueueOptions& options) override;
  MadeMirror make_mirror(const QueueOptions& options,
                         const std::shared_ptr<MirrorEvents>& events) override;
  void close(std::uint64_t number) override;

  void on_put(const Client& from, const link::Put& asked) override;
  void on_ring(const Client& from, const link::QueueRing& asked, platform::Fd ring) override;
  void on_join_get_ring(const Client& from, const link::JoinGetRing& asked) override;
  void on_get(const Client& from, const link::Get& asked) override;
  void on_call(const Client& from, const link::QueueCall& asked) override;
  void on_take(const Client& from, const link::Take& taken) override;
  void on_cancel(const Client& from, const link::Cancel& cancelled) override;
  void on_wake(const link::QueueWake& woken) override;
  void collect_all_taken() override;
  void forget(const Client& client) override;
  [[gnu::cold]] std::vector<QueueReport> report() override;

  bool put_now(const link::QueueName& queue, std::span<const std::byte> descriptor,
               const link::PublishedRef& own) override;
  std::optional<std::uint64_t> take_now(const link::QueueName& queue, const ReadItem& read,
                                        bool& none_left) override;
  RingsToSleepOn rings_to_sleep_on(const link::QueueName& queue) override;
  void look_again(const link::QueueName& queue) override;

 private:
  using Table = QueueTable<Client, LentRef>;

  struct ServedQueue {
    std::uint64_t key = 0;
    QueueOptions options;
    Table table;
    GetRing get_ring;
    std::shared_ptr<MirrorServer> mirror{};  // serves the clients instead of the table
    PutRings rings{};
    PutRings::Lender own_lender{};  // for this participant's own memory; null before its first use

    memory::Grant grant() const noexcept {
      return options.shared ? memory::Grant::kWrite : memory::Grant::kRead;
    }
  };
  struct Port;
  class Touch;

  // Records the items that clients have taken from the get ring, and enters the items that they
  // have put through rings. Called before every decision.
  void pull(ServedQueue& queue);
  void collect_taken(ServedQueue& queue);
  // Takes back the items of the get ring, which then wait again. Called before the order of items,
  // or whether more items come, may change.
  void take_back_ahead(ServedQueue& queue);
  bool lend_ahead(ServedQueue& queue);
  bool lend_ahead(ServedQueue& queue, const LentRef& item, std::uint64_t number);
  static void note_taken(Table& table, const Client& client, GetRing::Lease lease) noexcept;
  // As pull(), but first takes back all promised room: no item can be put through a ring before
  // look_after().
  void pull_all(ServedQueue& queue);
  // Promises room, lends items, and makes clients wake the server while a get waits for an item.
  void look_after(ServedQueue& queue) noexcept;
  std::nullopt_t nothing_to_take(ServedQueue& queue, bool& none_left);
  void enter(ServedQueue& queue, const Client& from, const PutRings::Lender& lender,
             const link::PutSlot& slot);
  void enter_lent(ServedQueue& queue, const Client& from, std::span<const std::byte> descriptor,
                  std::uint64_t token);
  void acquire_own(ServedQueue& queue, LentSample& item);
  PutRings::Lender own_lender(ServedQueue& queue);
  PutRings::Lender lender_of(const PeerSession& client, const ServedQueue& queue,
                             std::uint64_t token = 0) const;
  void put(const Table::Request& request, std::uint64_t number, LentRef item);
  void note_own(const Client& client);
  void forget(ServedQueue& queue, const Client& client);
  ServedQueue* find_for_own(const link::QueueName& name) noexcept;

  link::QueueName add(const QueueOptions& options, std::shared_ptr<MirrorServer> mirror);
  ServedQueue& find(const link::QueueName& name, bool by_name = false);

  ParticipantContext& context_;
  std::map<std::uint64_t, ServedQueue> queues_;
  std::uint64_t next_ = 1;
  Client own_;  // this participant as a client; null before its first request by message
  EventLoop::Task& looking_again_;
  static constexpr std::chrono::milliseconds kLookAgain{1};  // delay after a lack of memory
  // Numbers of the latest closed queues that were shut down and empty. The reply to a later GET is
  // that the queue is shut down, not that it is closed.
  static constexpr std::size_t kMaxRemembered = 1024;
  std::set<std::uint64_t> shut_down_;
};

// Calls pull() before a queue's table is used, and look_after() afterwards.
class QueueServer::Touch {
 public:
  Touch(QueueServer& server, ServedQueue& queue) : server_(server), queue_(queue) {
    server_.pull(queue_);
  }
  ~Touch() { server_.look_after(queue_); }
  Touch(const Touch&) = delete;
  Touch& operator=(const Touch&) = delete;

 private:
  QueueServer& server_;
  ServedQueue& queue_;
};

}  // namespace tensorbus::bus
