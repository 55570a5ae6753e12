#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <tensorbus/values/id.hpp>
#include <utility>
#include <vector>

#include "tensorbus/bus/publish/sender.hpp"
#include "tensorbus/bus/subscribe/receiver.hpp"
#include "tensorbus/link/trace/trace_ring.hpp"
#include "tensorbus/link/wire/connection_messages.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::bus {

// The connected tracer, if there is one: its ring, and the topics that it traces (docs/tracing.md).
// Owned by Participant. Thread-safe: the mutex ensures that no publisher or subscriber gets a
// ring that was stopped.
class Tracing {
 public:
  using Publishers = std::function<std::vector<std::shared_ptr<Sender>>()>;
  using Subscribers = std::function<std::vector<std::shared_ptr<Receiver>>()>;
  // These return the publishers and subscribers that were added to the participant.
  Tracing(const Id& self, Publishers publishers, Subscribers subscribers)
      : self_(self), publishers_(std::move(publishers)), subscribers_(std::move(subscribers)) {}

  // Gives a new ring, charged to `charge`, to publishers and subscribers of these topics; without
  // topics, to all. Throws Error(kUnsupported) if a tracer is connected, Error(kOutOfMemory).
  std::shared_ptr<link::TraceRing> start(const std::vector<link::TopicName>& topics, pid_t tracer,
                                         memory::PeerCharge charge);
  // Takes the ring away from all publishers and subscribers.
  void stop() noexcept;

  // Gives a new publisher or subscriber the ring, if there is one for its topic.
  void add(const std::shared_ptr<Sender>& publisher);
  void add(const std::shared_ptr<Receiver>& subscriber);

 private:
  template <typename Core>
  using Traced = std::vector<std::weak_ptr<Core>>;
  void stop_now() noexcept TB_REQUIRES(mutex_);
  template <typename Core>
  void give_now(const std::shared_ptr<Core>& core, Traced<Core>& traced) TB_REQUIRES(mutex_);
  template <typename Core>
  void take_away(Traced<Core>& traced) noexcept TB_REQUIRES(mutex_);

  const Id self_;
  const Publishers publishers_;
  const Subscribers subscribers_;
  platform::Mutex mutex_;
  std::shared_ptr<link::TraceRing> ring_ TB_GUARDED_BY(mutex_);  // null: no tracer
  std::set<std::string> topics_ TB_GUARDED_BY(mutex_);
  pid_t tracer_ TB_GUARDED_BY(mutex_) = 0;
  // Publishers and subscribers with the ring, including destroyed ones, so that stop() needs no
  // memory.
  Traced<Sender> publishers_traced_ TB_GUARDED_BY(mutex_);
  Traced<Receiver> subscribers_traced_ TB_GUARDED_BY(mutex_);
};

}  // namespace tensorbus::bus
