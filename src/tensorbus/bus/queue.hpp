#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tensorbus/values/message.hpp>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/stats.hpp>
#include <vector>

#include "tensorbus/bus/participant/participant_ref.hpp"
#include "tensorbus/bus/publish/sample_builder.hpp"
#include "tensorbus/bus/queue_client/queue_request.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/link/lease/mirror_origin.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus::bus {

class Pinning;
class QueueClient;
struct QueueRings;

// A program's end of a queue: prepares items, and uses the rings or a QueueClient to put and get
// them. The object that made the queue closes it when it is destroyed. include/tensorbus/queue.hpp
// describes the calls and their errors. Thread-safe. After a fork it belongs to the parent:
// programs hold it in a ForkSafe. After a move, only its destructor may be called.
class TENSORBUS_API Queue {
 public:
  static constexpr const char* kMovedFrom = "this queue was moved from";
  static constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

  // `origin`: for a service that represents a service on another machine; written into the marker.
  explicit Queue(const QueueOptions& options = {},
                 const ParticipantRef& participant = shared_participant(),
                 const link::MirrorOrigin& origin = {});
  // Opens a queue by its address, or by its name; waits until there is a queue of this name.
  // `ended`: with a name, the address of an earlier queue that is not opened again; or empty.
  static Queue open(const std::string& address_or_name,
                    const platform::StopCondition& stop = kForever,
                    const ParticipantRef& participant = shared_participant(),
                    const std::string& ended = {});
  // Returns the queue of an address without a request to its server.
  static Queue at(const std::string& address, const QueueOptions& options = {},
                  const ParticipantRef& participant = shared_participant());
  // Returns the addresses of the queues with this name. Their servers may have ended.
  static std::vector<std::string> addresses_of(
      const std::string& name, const ParticipantRef& participant = shared_participant());
  Queue(Queue&&) noexcept = default;
  Queue& operator=(Queue&&) = delete;
  ~Queue();  // close(), if this object made the queue

  const std::string& address() const;
  const QueueOptions& options() const;
  bool made_here() const;
  // Sets the access of this object's items. Default: kShared if the queue is shared, else kRead.
  // Must be called before the first get.
  void receive_with(Access access);
  // Pins the items of later gets, as QueueOptions::pin. No other thread may get an item meanwhile.
  // Throws Error(kUnsupported) if this process cannot pin; Error(kInvalidArgument) with
  // Access::kPrivate.
  void pin();
  // As pin(), but the next get throws: a process that only puts starts no GPU driver.
  void pin_later();
  // Throws what pin() throws with this access.
  static void require_pinning(Access access);

  Outcome put(const Message& item, const platform::StopCondition& stop = kForever);
  Outcome get(Sample& item, const platform::StopCondition& stop = kForever);
  // Puts an item if that needs neither a wait nor a request to the server. Returns true if the item
  // was put.
  bool put_now(const Message& item);

  class Pending;
  // Like get(), but also ends, with kClosed, when the reply to `unanswered` comes, a put or a call.
  Outcome get_while(Sample& item, const Pending& unanswered,
                    const platform::StopCondition& stop = kForever);

  // Puts items in order. Returns kDone, or the outcome of the first item that was not put, whose
  // index is `count`: the number of items put. Throws like put(), with `count` set.
  Outcome put_many(std::span<const Message> items, std::size_t& count,
                   const platform::StopCondition& stop = kForever);
  // Waits for one item like get(). Appends it, and up to `most - 1` items that wait behind it.
  Outcome get_many(std::vector<Sample>& items, std::size_t most,
                   const platform::StopCondition& stop = kForever);

  // A request under way. Its descriptor is readable when the reply has come. The destructor cancels
  // the request; an item that the server has offered returns to the queue.
  class TENSORBUS_API Pending {
   public:
    Pending(Pending&&) noexcept;
    Pending& operator=(Pending&&) noexcept;
    ~Pending();
    // Returns the descriptor, which the first call makes. Throws Error(kOutOfMemory) if no
    // descriptor is left.
    int descriptor() const;
    bool is_get() const noexcept;
    // Returns the outcome, or throws the error, of the put, get or call, once. `item` receives the
    // item of a get. If the outcome is kTimedOut and answered() is false, the reply is still
    // missing, and the descriptor becomes readable later.
    Outcome take(Sample& item);
    // Waits until take() of this request or of `other` may succeed. During the wait, this thread
    // runs handlers of the event loop. Returns false if this wait is not possible now; then poll
    // the descriptors.
    bool wait(const platform::StopCondition& stop, Pending* other = nullptr);
    // Returns true if the reply to a put or a call has come. For a get, returns true if take() has
    // returned its final outcome.
    bool answered() const noexcept;
    void cancel() noexcept;
    // Sends the server a request to cancel a put or a call. The reply to the put or call still
    // comes.
    void request_cancel();
    // Returns the numbers in the reply to a call, after take() (queue_messages.hpp).
    std::array<std::uint64_t, 4> values() const noexcept;
    // For a get with `holds`: accepts the item that take() has read. cancel() refuses it instead.
    // After kTimedOut the descriptor becomes readable again.
    Outcome accept();
    // Refuses the item for good: it cannot be read, and counts as lost.
    void spoil();
    // Returns the number of a get's item; 0 without `redeliver`.
    std::uint64_t number() const noexcept;

   private:
    friend class Queue;
    struct Impl;
    explicit Pending(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
  };
  // `waits`: the request waits for room, or for an item. `holds`: take() only reads the item, and
  // accept() or cancel() must follow; the item is not recorded for task_done().
  Pending start_put(const Message& item, bool waits = true);
  Pending start_get(bool holds = false, bool waits = true);
  Pending start_join();
  // For bridges: make any call, with its number (queue_messages.hpp). call() waits for the reply,
  // which the server sends at once.
  Pending start_call(link::QueueVerb verb, std::uint64_t number = 0);
  void call(link::QueueVerb verb, std::uint64_t number, const GiveUp& give_up = {});

  Outcome join(const platform::StopCondition& stop = kForever);
  // After shutdown(): the number of waiting items, and the live processes that have requested
  // items.
  struct Remaining {
    std::uint64_t items = 0;
    std::uint64_t others = 0;  // number of other processes
    bool asked_here = false;
  };
  Remaining shutdown(bool immediate = false, const GiveUp& give_up = {});
  Outcome drain(const platform::StopCondition& stop = kForever);
  // The server replies to these at once. They throw Error(kTimeout) if no reply comes within five
  // seconds.
  void task_done(const GiveUp& give_up = {});
  QueueStats stats(const GiveUp& give_up = {}) const;
  void close(const GiveUp& give_up = {});

 private:
  Queue(const ParticipantRef& participant, QueueOptions options);
  // For a queue that another object has made.
  Queue(const ParticipantRef& participant, QueueOptions options, const QueueAddress& address);
  QueueClient client() const;
  QueueClient getting_client() const;
  Access access() const noexcept;
  memory::Grant grant() const noexcept;
  std::size_t put_at_once(std::span<const Message> items,
                          const platform::StopCondition& stop) const;
  bool put_at_once(const SampleBuilder& item, const platform::StopCondition& stop) const;
  Outcome when_there_is_room(const platform::StopCondition& stop,
                             const std::function<void()>& prepare) const;
  std::exception_ptr prepare_all(std::span<const Message> items, std::list<SampleBuilder>& to,
                                 const platform::StopCondition& stop, Outcome& outcome) const;

  ParticipantRef participant_;
  QueueOptions options_;
  QueueAddress address_;
  std::string text_;    // the address as text
  std::string marker_;  // of a named queue that this object made
  bool made_here_ = false;
  std::optional<Access> wanted_;  // set by receive_with()
  std::shared_ptr<const QueueRings> rings_;
  std::shared_ptr<Pinning> pinning_;  // null: items are not pinned
};

}  // namespace tensorbus::bus
