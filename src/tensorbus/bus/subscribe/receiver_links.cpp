// The part of Receiver that the event loop calls: links come, are accepted or refused, and end.
#include <algorithm>
#include <bit>
#include <new>
#include <string>
#include <utility>

#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/subscribe/receiver.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::size_t kMaxMismatches = 16;  // not thrown by any call yet

std::string definition_to_send(const MessageType& type) {
  const std::string& definition = type.definition();
  if (definition.size() <= link::kMaxDefinition) return definition;
  return std::string(type.name().substr(0, link::kMaxDefinition));
}

// Throws if the owner grants more than was requested. Depth 0 requests the owner's own depth.
void require_as_asked(const link::Accepted& accepted, const SubscriberOptions& asked) {
  const bool deeper = asked.depth != 0 && accepted.slots > std::bit_ceil(asked.depth);
  if (!deeper && accepted.slots <= link::kMaxDepth && accepted.max_held <= asked.max_held &&
      accepted.returns <= std::bit_ceil(accepted.slots + accepted.max_held))
    return;
  throw Error(Code::kProtocol, "ACCEPTED: queues of " + std::to_string(accepted.slots) + " and " +
                                   std::to_string(accepted.returns) + " slots, max_held " +
                                   std::to_string(accepted.max_held) + ": more than requested");
}

// Throws if the owner names a mirror's machine or publisher, but not both correctly.
void require_origin(const link::Accepted& accepted) {
  if (accepted.machine.empty() && accepted.publisher.empty()) return;
  if (accepted.machine.empty() || !parse_publisher_name(accepted.publisher))
    throw Error(Code::kProtocol, "ACCEPTED.publisher: not the name of a publisher on a machine");
}

}  // namespace

void Receiver::add(std::shared_ptr<link::BorrowerLink> link) {
  const platform::MutexLock lock(mutex_);
  if (closed_) return;
  links_.reserve(links_.size() + 1);
  to_settle_.reserve(links_.size() + 1);
  stream_.reserve(links_.size() + 1);
  ends_.reserve(may_end() + 1);
  std::vector<platform::Fd> fds;
  try {
    if (event_) fds = notifier_for(*link);
  } catch (const Error&) {  // no descriptor: look_after_event() replaces the notifier
  }
  try {
    link->channel().send(link::Subscribe{.link = link->id(),
                                         .publisher = link->source()->publisher,
                                         .depth = options_.depth,
                                         .max_held = options_.max_held,
                                         .wake_slot = sleeper_.index(),
                                         .writable = asks_for() == memory::Grant::kWrite ? 1U : 0U,
                                         .best_effort = options_.reliable ? 0U : 1U,
                                         .fingerprint = options_.type.fingerprint(),
                                         .resume_at = stream_.resume_at(*link),
                                         .topic = topic_,
                                         .type = definition_to_send(options_.type),
                                         .node = options_.node.substr(0, link::kMaxNode)},
                         std::move(fds));
  } catch (...) {
    drop_notifier(*link);
    throw;
  }
  links_.push_back(std::move(link));
}

void Receiver::accept(const LinkRef& link, const link::Accepted& accepted, platform::Fd segment,
                      platform::Fd room_notifier) {
  const platform::MutexLock lock(mutex_);
  require_as_asked(accepted, options_);
  require_origin(accepted);
  link->accept(accepted, std::move(segment), std::move(room_notifier));
  stream_.accepted(*link, links_);
  stats_.missed += stream_.follow_mirrors(links_);
  if (stopped_) link->stop_here();
  wake_all();
}

void Receiver::end(const LinkRef& link, bool cut_off) {
  const platform::MutexLock lock(mutex_);
  if (cut_off && !link->ended()) {
    link->cut_off_by_owner = true;
    ++stats_.cut_off;
  } else if (!cut_off) {
    link->cut_off_by_owner = false;
  }
  link->end();
  const bool was_cut_off = stream_.is_cut_off(link);
  count_missed_at_the_end(*link, stream_.note_connection_lost(link));
  if (was_cut_off) ends_.note(*link);
  forget_ended_links();
  wake_all();  // the owner may have died between its last sample and the wake-up
}

void Receiver::expect_link() {
  const platform::MutexLock lock(mutex_);
  stream_.expect_link();
}

void Receiver::expect_link_no_more() {
  const platform::MutexLock lock(mutex_);
  stream_.expect_link_no_more();
  wake_all();
}

void Receiver::not_joined(std::string_view why) noexcept {
  const platform::MutexLock lock(mutex_);
  ++stats_.refused;
  try {
    stats_.last_refusal = why;
  } catch (const std::bad_alloc&) {  // the count still reports it
    stats_.last_refusal.clear();
  }
}

void Receiver::refuse(const LinkRef& link, Code code, std::string_view why) noexcept {
  const platform::MutexLock lock(mutex_);
  std::erase(links_, link);
  pending_.erase(link.get());
  drop_notifier(*link);
  ++stats_.refused;
  try {
    stats_.last_refusal = why;
    if (code != Code::kTypeMismatch) return;
    stats_.last_refusal += "\nThis subscriber's type:\n" + options_.type.definition();
    mismatches_.push_back("topic \"" + topic_ + "\": " + stats_.last_refusal);
    if (mismatches_.size() > kMaxMismatches) mismatches_.pop_front();
    wake_all();
  } catch (const std::bad_alloc&) {  // the count still reports it
    stats_.last_refusal.clear();
  }
}

}  // namespace tensorbus::bus
