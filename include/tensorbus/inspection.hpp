#pragma once

#include <tensorbus/c/inspection.h>

#include <chrono>
#include <string>
#include <tensorbus/inspected.hpp>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/internal/tensors.hpp>
#include <vector>

namespace tensorbus::inline v0 {
namespace internal {

inline PeerName report_of(const tb_peer_name& of) {
  return {id_of(of.participant), of.pid, of.process};
}

inline PublisherStats report_of(const tb_publisher_stats& of) {
  return {.sent = of.sent,
          .delivered = of.delivered,
          .dropped_depth = of.dropped_depth,
          .dropped_held = of.dropped_held,
          .dropped_unsent = of.dropped_unsent,
          .timed_out = of.timed_out,
          .waited = of.waited,
          .bytes_copied = of.bytes_copied,
          .bytes_in_flight = of.bytes_in_flight,
          .subscribers = of.subscribers,
          .waiting = of.waiting,
          .cut_off = of.cut_off,
          .bad_returns = of.bad_returns,
          .blocked_by = of.blocked_by,
          .blocked_for = std::chrono::nanoseconds(of.blocked_ns)};
}
inline SubscriberStats report_of(const tb_subscriber_stats& of, const char* last_refusal) {
  return {.received = of.received,
          .missed = of.missed,
          .bad = of.bad,
          .gone = of.gone,
          .staged = of.staged,
          .held = of.held,
          .publishers = of.publishers,
          .cut_off = of.cut_off,
          .refused = of.refused,
          .last_refusal = last_refusal};
}
inline QueueStats report_of(const tb_queue_stats& of) {
  return {of.items, of.unfinished, of.lost, of.bytes};
}

inline LinkReport report_of(const tb_link_report& of);
inline QueueClientReport report_of(const tb_queue_client_report& of) {
  return {report_of(of.client), of.in_hand, of.waiting_puts, of.waiting_gets};
}
inline ShareReport report_of(const tb_share_report& of) {
  return {of.number, of.bytes, of.uses_left, std::chrono::nanoseconds(of.age_ns)};
}
inline LentReport report_of(const tb_lent_report& of) {
  return {report_of(of.peer), of.leases, of.bytes, std::chrono::nanoseconds(of.oldest_ns)};
}
inline BorrowedReport report_of(const tb_borrowed_report& of) {
  return {report_of(of.peer), of.segments, of.bytes, of.leases};
}
inline DeviceReport report_of(const tb_device_report& of) {
  return {of.device, of.used_bytes, of.reserved_bytes, of.budget_bytes};
}
inline PublisherReport report_of(const tb_publisher_report& of);
inline SubscriberReport report_of(const tb_subscriber_report& of);
inline QueueReport report_of(const tb_queue_report& of);
inline ParticipantReport report_of(const tb_participant_report& of);

// Return a list of C as a vector.
inline std::vector<std::string> texts_of(const char* const* texts, std::size_t count) {
  return {texts, texts + count};
}
template <typename Struct>
auto reports_of(const Struct* const* parts, std::size_t count) {
  std::vector<decltype(report_of(**parts))> reports;
  for (std::size_t i = 0; i < count; ++i) reports.push_back(report_of(*parts[i]));
  return reports;
}

inline LinkReport report_of(const tb_link_report& of) {
  return {.subscriber = report_of(of.subscriber),
          .node = of.node,
          .depth = of.depth,
          .max_held = of.max_held,
          .reliable = of.reliable != 0,
          .delivered = of.delivered,
          .waiting = of.waiting,
          .held = of.held,
          .held_bytes = of.held_bytes,
          .oldest_held = std::chrono::nanoseconds(of.oldest_held_ns),
          .dropped_depth = of.dropped_depth,
          .dropped_held = of.dropped_held,
          .dropped_unsent = of.dropped_unsent,
          .blocked = std::chrono::nanoseconds(of.blocked_ns),
          .cut_off = of.cut_off != 0};
}
inline PublisherReport report_of(const tb_publisher_report& of) {
  return {.topic = of.topic,
          .number = of.number,
          .node = of.node,
          .type = of.type,
          .machine = of.machine,
          .origin = of.origin,
          .depth = of.depth,
          .history = of.history,
          .reliable = of.reliable != 0,
          .shared = of.shared != 0,
          .isolated = of.isolated != 0,
          .bytes_sent = of.bytes_sent,
          .stats = report_of(*of.stats),
          .links = reports_of(of.links, of.link_count)};
}
inline SubscriberReport report_of(const tb_subscriber_report& of) {
  static_assert(static_cast<int>(Access::kShared) == TB_ACCESS_SHARED);  // C has the same numbers
  return {.topic = of.topic,
          .node = of.node,
          .type = of.type,
          .depth = of.depth,
          .max_held = of.max_held,
          .reliable = of.reliable != 0,
          .access = static_cast<Access>(of.access),
          .stats = report_of(*of.stats, of.last_refusal),
          .publishers = texts_of(of.publishers, of.publisher_count)};
}
inline QueueReport report_of(const tb_queue_report& of) {
  return {.name = of.name,
          .service = of.service,
          .number = of.number,
          .machine = of.machine,
          .maxsize = of.maxsize,
          .max_bytes = of.max_bytes,
          .redeliver = of.redeliver != 0,
          .shut_down = of.shut_down != 0,
          .in_hand = of.in_hand,
          .redelivered = of.redelivered,
          .stats = report_of(*of.stats),
          .clients = reports_of(of.clients, of.client_count)};
}
inline MemoryReport report_of(const tb_memory_report& of) {
  return {.segments = of.segments,
          .blocks = of.blocks,
          .used_bytes = of.used_bytes,
          .reserved_bytes = of.reserved_bytes,
          .budget_bytes = of.budget_bytes,
          .inherited_bytes = of.inherited_bytes,
          .private_bytes = of.private_bytes,
          .file_bytes = of.file_bytes,
          .lent = reports_of(of.lent, of.lent_count),
          .borrowed = reports_of(of.borrowed, of.borrowed_count),
          .devices = reports_of(of.devices, of.device_count)};
}
inline ParticipantReport report_of(const tb_participant_report& of) {
  return {.participant = id_of(of.participant),
          .pid = of.pid,
          .process = of.process,
          .error = of.error,
          .version = of.version,
          .age = std::chrono::nanoseconds(of.age_ns),
          .nodes = texts_of(of.nodes, of.node_count),
          .topics = texts_of(of.topics, of.topic_count),
          .publishers = reports_of(of.publishers, of.publisher_count),
          .subscribers = reports_of(of.subscribers, of.subscriber_count),
          .queues = reports_of(of.queues, of.queue_count),
          .shares = reports_of(of.shares, of.share_count),
          .memory = of.memory == nullptr ? MemoryReport{} : report_of(*of.memory)};
}

}  // namespace internal

// Inspects all participants of a domain in parallel. They reply from counters that they keep
// anyway: nothing subscribes, and no publisher waits. A process that is stopped, or hangs, is
// listed with `error`; one that has ended is not listed. `domain` is as in ParticipantOptions. A
// domain that does not exist is not made and has no participants. Throws Error(kPermission) for an
// unsafe directory.
//
//   for (const tensorbus::ParticipantReport& participant : tensorbus::inspect().participants)
//     for (const tensorbus::PublisherReport& publisher : participant.publishers)
//       std::cout << publisher.topic << ": " << publisher.stats.sent << '\n';
inline Inspection inspect(const std::string& domain = {},
                          std::chrono::nanoseconds timeout = std::chrono::seconds(1)) {
  const auto found = internal::created<internal::Owned<tb_inspection, tb_inspection_destroy>>(
      [&](tb_inspection** made) {
        return tb_inspect(internal::c_text_or_null(domain, "the domain"), timeout.count(), made);
      });
  return {found->domain, found->time_ns,
          internal::reports_of(found->participants, found->participant_count)};
}

}  // namespace tensorbus::inline v0
