#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <tensorbus/inspected.hpp>
#include <tensorbus/options.hpp>
#include <vector>

#include "tensorbus/bus/event_loop/event_loop.hpp"
#include "tensorbus/link/lease/published_sample.hpp"
#include "tensorbus/link/ring/put_ring.hpp"
#include "tensorbus/link/wire/queue_messages.hpp"
#include "tensorbus/platform/fd.hpp"

namespace tensorbus::bus {

// Begins the name of a service's queue, which several queues may have: one for each server.
inline constexpr std::string_view kServiceQueue = "service:";

class PeerSession;
class MirrorEvents;
class MirrorHost;
struct LentSample;

// The rings by which items come into a queue of this process; and what makes the event loop look
// into them, which any thread may schedule.
struct RingsToSleepOn {
  std::vector<std::shared_ptr<link::PutRingSegment>> rings;
  EventLoop::Task* look = nullptr;
};

// A mirror that was made (mirror_queue.hpp).
struct MadeMirror {
  link::QueueName name;
  std::shared_ptr<MirrorHost> host;
};

// The queues of this participant, for its own requests and its peers'. On the event loop only.
class QueueRequests {
 public:
  using Client = std::shared_ptr<PeerSession>;

  QueueRequests() = default;
  QueueRequests(const QueueRequests&) = delete;
  QueueRequests& operator=(const QueueRequests&) = delete;
  virtual ~QueueRequests() = default;

  // Makes, and closes, a queue of this participant.
  virtual link::QueueName make(const QueueOptions& options) = 0;
  virtual MadeMirror make_mirror(const QueueOptions& options,
                                 const std::shared_ptr<MirrorEvents>& events) = 0;
  virtual void close(std::uint64_t number) = 0;

  // Serve requests of clients. A request is denied with the Error that they throw.
  virtual void on_put(const Client& from, const link::Put& asked) = 0;
  virtual void on_ring(const Client& from, const link::QueueRing& asked, platform::Fd ring) = 0;
  virtual void on_prefetch(const Client& from, const link::Prefetch& asked) = 0;
  virtual void on_get(const Client& from, const link::Get& asked) = 0;
  virtual void on_call(const Client& from, const link::QueueCall& asked) = 0;
  // These have no answer.
  virtual void on_take(const Client& from, const link::Take& taken) = 0;
  virtual void on_cancel(const Client& from, const link::Cancel& cancelled) = 0;
  virtual void on_wake(const link::QueueWake& woken) = 0;
  // A client returns a lease that is not known: it has taken an item from a ring just now.
  virtual void collect_all_taken() = 0;
  // Removes a client that is gone.
  virtual void forget(const Client& client) = 0;

  virtual std::vector<QueueReport> report() = 0;

  // Calls of this participant's own threads, in a turn, which are done at once: items in host
  // memory, in a queue where nobody else has to be waited for. Nothing happens if they return
  // false or nothing: then the same is requested by message.

  // Puts an item with this descriptor, whose tensors lie in `own` memory of this participant; null:
  // it has none.
  virtual bool put_now(const link::QueueName& queue, std::span<const std::byte> descriptor,
                       const link::PublishedRef& own) = 0;
  // Calls `read` with the oldest item; if that returns true, it is taken. Returns its number for
  // task_done(), 0 without `redeliver`. Throws what `read` throws, and nothing was taken. Sets
  // `none_left` if no item waits and others may come.
  using ReadItem = std::function<bool(const std::shared_ptr<LentSample>&)>;
  virtual std::optional<std::uint64_t> take_now(const link::QueueName& queue, const ReadItem& read,
                                                bool& none_left) = 0;
  // What a thread whose GET waits may sleep on; nothing if an item is likely to come another way.
  virtual RingsToSleepOn rings_to_sleep_on(const link::QueueName& queue) = 0;
  // Enters what was put, for a thread that slept so.
  virtual void look_again(const link::QueueName& queue) = 0;
};

}  // namespace tensorbus::bus
