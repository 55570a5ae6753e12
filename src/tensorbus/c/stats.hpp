#pragma once

#include <tensorbus/c/publisher.h>
#include <tensorbus/c/queue.h>
#include <tensorbus/c/subscriber.h>

#include <tensorbus/stats.hpp>

// Conversions of counters to C structs.
namespace tensorbus::c {

inline tb_publisher_stats c_stats(const PublisherStats& found) noexcept {
  return {.struct_size = sizeof(tb_publisher_stats),
          .subscribers = found.subscribers,
          .waiting = found.waiting,
          .blocked_by = found.blocked_by,
          .sent = found.sent,
          .delivered = found.delivered,
          .dropped_depth = found.dropped_depth,
          .dropped_held = found.dropped_held,
          .dropped_unsent = found.dropped_unsent,
          .timed_out = found.timed_out,
          .waited = found.waited,
          .bytes_copied = found.bytes_copied,
          .bytes_in_flight = found.bytes_in_flight,
          .bad_returns = found.bad_returns,
          .blocked_ns = static_cast<std::uint64_t>(found.blocked_for.count()),
          .cut_off = found.cut_off};
}

inline tb_subscriber_stats c_stats(const SubscriberStats& found) noexcept {
  return {.struct_size = sizeof(tb_subscriber_stats),
          .publishers = found.publishers,
          .held = found.held,
          .cut_off = found.cut_off,
          .received = found.received,
          .missed = found.missed,
          .bad = found.bad,
          .gone = found.gone,
          .staged = found.staged,
          .refused = found.refused};
}

inline tb_queue_stats c_stats(const QueueStats& found) noexcept {
  return {.struct_size = sizeof(tb_queue_stats),
          .reserved = 0,
          .items = found.items,
          .unfinished = found.unfinished,
          .lost = found.lost,
          .bytes = found.bytes};
}

}  // namespace tensorbus::c
