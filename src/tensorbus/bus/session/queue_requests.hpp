#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <tensorbus/values/inspected.hpp>
#include <tensorbus/values/options.hpp>
#include <vector>

#include "tensorbus/bus/event_loop/event_loop.hpp"
#include "tensorbus/link/lease/published_sample.hpp"
#include "tensorbus/link/ring/put_ring.hpp"
#include "tensorbus/link/wire/queue_messages.hpp"
#include "tensorbus/platform/fd.hpp"

namespace tensorbus::bus {

// Prefix of the name of a service's queue. Several queues may have this name: one for each server
// of the service.
inline constexpr std::string_view kServiceQueue = "service:";

class PeerSession;
class MirrorEvents;
class MirrorServer;
struct LentSample;

// The rings through which items come into a queue of this process, and the task by which the event
// loop reads them. Any thread may schedule the task.
struct RingsToSleepOn {
  std::vector<std::shared_ptr<link::PutRingSegment>> rings;
  EventLoop::Task* look = nullptr;
};

// A new mirror (mirror_queue.hpp).
struct MadeMirror {
  link::QueueName name;
  std::shared_ptr<MirrorServer> server;
};

// The queues of this participant. Serves requests of its own threads and of its peers. On the event
// loop only.
class QueueRequests {
 public:
  using Client = std::shared_ptr<PeerSession>;

  QueueRequests() = default;
  QueueRequests(const QueueRequests&) = delete;
  QueueRequests& operator=(const QueueRequests&) = delete;
  virtual ~QueueRequests() = default;

  // Make and close a queue of this participant.
  virtual link::QueueName make(const QueueOptions& options) = 0;
  virtual MadeMirror make_mirror(const QueueOptions& options,
                                 const std::shared_ptr<MirrorEvents>& events) = 0;
  virtual void close(std::uint64_t number) = 0;

  // Serve requests of clients. A request is denied with the Error that its function throws.
  virtual void on_put(const Client& from, const link::Put& asked) = 0;
  virtual void on_ring(const Client& from, const link::QueueRing& asked, platform::Fd ring) = 0;
  virtual void on_join_get_ring(const Client& from, const link::JoinGetRing& asked) = 0;
  virtual void on_get(const Client& from, const link::Get& asked) = 0;
  virtual void on_call(const Client& from, const link::QueueCall& asked) = 0;
  // Messages without a reply.
  virtual void on_take(const Client& from, const link::Take& taken) = 0;
  virtual void on_cancel(const Client& from, const link::Cancel& cancelled) = 0;
  virtual void on_wake(const link::QueueWake& woken) = 0;
  // Called when a client returns an unknown lease: the client may have taken an item from a get
  // ring.
  virtual void collect_all_taken() = 0;
  // Removes a client that is gone.
  virtual void forget(const Client& client) = 0;

  virtual std::vector<QueueReport> report() = 0;

  // Calls of this participant's own threads, in a turn. They are done at once, for items in host
  // memory, if they need not wait for another client. If a call returns false or an empty value, no
  // item was put or taken, and the caller sends a request by message.

  // Puts an item with this descriptor. Its tensors lie in `own`, memory of this participant; null
  // for an item without tensors.
  virtual bool put_now(const link::QueueName& queue, std::span<const std::byte> descriptor,
                       const link::PublishedRef& own) = 0;
  // Calls `read` with the oldest item, which is taken if `read` returns true. Returns its number
  // for task_done(); 0 without `redeliver`. Throws what `read` throws, without taking an item. Sets
  // `none_left` if no item waits and items may still come.
  using ReadItem = std::function<bool(const std::shared_ptr<LentSample>&)>;
  virtual std::optional<std::uint64_t> take_now(const link::QueueName& queue, const ReadItem& read,
                                                bool& none_left) = 0;
  // Returns the rings on which a thread with a waiting GET may sleep; none if an item is likely to
  // come another way.
  virtual RingsToSleepOn rings_to_sleep_on(const link::QueueName& queue) = 0;
  // Enters the items that were put while a thread slept on the rings.
  virtual void look_again(const link::QueueName& queue) = 0;
};

}  // namespace tensorbus::bus
