#include "tensorbus/bus/trace/tracing.hpp"

#include <utility>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {

std::shared_ptr<link::TraceRing> Tracing::start(const std::vector<link::TopicName>& topics,
                                                pid_t tracer, memory::PeerCharge charge) {
  const platform::MutexLock lock(mutex_);
  if (ring_)
    throw Error(Code::kUnsupported, "process " + std::to_string(tracer_) +
                                        " traces it already; one tracer at a time is possible");
  auto ring = std::make_shared<link::TraceRing>(self_, std::move(charge));
  topics_.clear();
  for (const link::TopicName& topic : topics) topics_.insert(topic.name);
  tracer_ = tracer;
  ring_ = std::move(ring);
  try {
    for (const auto& publisher : publishers_()) give_now(publisher, publishers_traced_);
    for (const auto& subscriber : subscribers_()) give_now(subscriber, subscribers_traced_);
  } catch (...) {
    stop_now();
    throw;
  }
  return ring_;
}

void Tracing::stop() noexcept {
  const platform::MutexLock lock(mutex_);
  stop_now();
}

void Tracing::stop_now() noexcept {
  // Keeps the ring until all publishers and subscribers have released it, so that it is not
  // unmapped under their mutexes.
  const auto last = std::move(ring_);
  take_away(publishers_traced_);
  take_away(subscribers_traced_);
}

void Tracing::add(const std::shared_ptr<Sender>& publisher) {
  const platform::MutexLock lock(mutex_);
  give_now(publisher, publishers_traced_);
}

void Tracing::add(const std::shared_ptr<Receiver>& subscriber) {
  const platform::MutexLock lock(mutex_);
  give_now(subscriber, subscribers_traced_);
}

template <typename Core>
void Tracing::give_now(const std::shared_ptr<Core>& core, Traced<Core>& traced) {
  if (!ring_ || (!topics_.empty() && !topics_.contains(core->topic()))) return;
  std::erase_if(traced, [](const auto& weak) { return weak.expired(); });
  traced.push_back(core);
  core->trace(ring_);
}

template <typename Core>
void Tracing::take_away(Traced<Core>& traced) noexcept {
  for (const auto& weak : traced)
    if (const auto core = weak.lock()) core->trace(nullptr);
  traced.clear();
}

}  // namespace tensorbus::bus
