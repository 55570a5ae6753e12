#pragma once

#include <concepts>
#include <tensorbus/inspected.hpp>
#include <type_traits>

// The fields of each report, listed once: for the wire (report_codec.cpp) and for Python, under
// their Python names. `each(name, field)` is called in this order, which is the order on the wire:
// new fields come last.
namespace tensorbus::bus {

template <typename Report, typename Of>
concept IsReport = std::same_as<std::remove_const_t<Report>, Of>;

template <typename Each>
void list_fields(Each& each, IsReport<PeerName> auto& of) {
  each("participant", of.participant);
  each("pid", of.pid);
  each("process", of.process);
}

template <typename Each>
void list_fields(Each& each, IsReport<LinkReport> auto& of) {
  each("subscriber", of.subscriber);
  each("node", of.node);
  each("depth", of.depth);
  each("max_held", of.max_held);
  each("reliable", of.reliable);
  each("delivered", of.delivered);
  each("waiting", of.waiting);
  each("held", of.held);
  each("held_bytes", of.held_bytes);
  each("oldest_held_ns", of.oldest_held);
  each("dropped_depth", of.dropped_depth);
  each("dropped_held", of.dropped_held);
  each("dropped_unsent", of.dropped_unsent);
  each("blocked_ns", of.blocked);
  each("cut_off", of.cut_off);
}

template <typename Each>
void list_fields(Each& each, IsReport<PublisherStats> auto& of) {
  each("sent", of.sent);
  each("delivered", of.delivered);
  each("dropped_depth", of.dropped_depth);
  each("dropped_held", of.dropped_held);
  each("dropped_unsent", of.dropped_unsent);
  each("timed_out", of.timed_out);
  each("waited", of.waited);
  each("waiting", of.waiting);
  each("bytes_copied", of.bytes_copied);
  each("bytes_in_flight", of.bytes_in_flight);
  each("subscribers", of.subscribers);
  each("bad_returns", of.bad_returns);
  each("cut_off", of.cut_off);
  each("blocked_by", of.blocked_by);
  each("blocked_ns", of.blocked_for);
}

template <typename Each>
void list_fields(Each& each, IsReport<PublisherReport> auto& of) {
  each("topic", of.topic);
  each("number", of.number);
  each("node", of.node);
  each("type", of.type);
  each("machine", of.machine);
  each("origin", of.origin);
  each("depth", of.depth);
  each("history", of.history);
  each("reliable", of.reliable);
  each("shared", of.shared);
  each("isolated", of.isolated);
  each("bytes_sent", of.bytes_sent);
  each("stats", of.stats);
  each("links", of.links);
}

template <typename Each>
void list_fields(Each& each, IsReport<SubscriberStats> auto& of) {
  each("received", of.received);
  each("missed", of.missed);
  each("cut_off", of.cut_off);
  each("bad", of.bad);
  each("gone", of.gone);
  each("staged", of.staged);
  each("held", of.held);
  each("publishers", of.publishers);
  each("refused", of.refused);
  each("last_refusal", of.last_refusal);
}

template <typename Each>
void list_fields(Each& each, IsReport<SubscriberReport> auto& of) {
  each("topic", of.topic);
  each("node", of.node);
  each("type", of.type);
  each("depth", of.depth);
  each("max_held", of.max_held);
  each("reliable", of.reliable);
  each("access", of.access);
  each("stats", of.stats);
  each("publishers", of.publishers);
}

template <typename Each>
void list_fields(Each& each, IsReport<QueueStats> auto& of) {
  each("items", of.items);
  each("unfinished", of.unfinished);
  each("lost", of.lost);
  each("bytes", of.bytes);
}

template <typename Each>
void list_fields(Each& each, IsReport<QueueClientReport> auto& of) {
  each("client", of.client);
  each("in_hand", of.in_hand);
  each("waiting_puts", of.waiting_puts);
  each("waiting_gets", of.waiting_gets);
}

template <typename Each>
void list_fields(Each& each, IsReport<QueueReport> auto& of) {
  each("name", of.name);
  each("service", of.service);
  each("number", of.number);
  each("machine", of.machine);
  each("maxsize", of.maxsize);
  each("max_bytes", of.max_bytes);
  each("redeliver", of.redeliver);
  each("shut_down", of.shut_down);
  each("in_hand", of.in_hand);
  each("redelivered", of.redelivered);
  each("stats", of.stats);
  each("clients", of.clients);
}

template <typename Each>
void list_fields(Each& each, IsReport<ShareReport> auto& of) {
  each("number", of.number);
  each("bytes", of.bytes);
  each("uses_left", of.uses_left);
  each("age_ns", of.age);
}

template <typename Each>
void list_fields(Each& each, IsReport<LentReport> auto& of) {
  each("peer", of.peer);
  each("leases", of.leases);
  each("bytes", of.bytes);
  each("oldest_ns", of.oldest);
}

template <typename Each>
void list_fields(Each& each, IsReport<BorrowedReport> auto& of) {
  each("peer", of.peer);
  each("segments", of.segments);
  each("bytes", of.bytes);
  each("leases", of.leases);
}

template <typename Each>
void list_fields(Each& each, IsReport<DeviceReport> auto& of) {
  each("device", of.device);
  each("used_bytes", of.used_bytes);
  each("reserved_bytes", of.reserved_bytes);
  each("budget_bytes", of.budget_bytes);
}

template <typename Each>
void list_fields(Each& each, IsReport<MemoryReport> auto& of) {
  each("segments", of.segments);
  each("blocks", of.blocks);
  each("used_bytes", of.used_bytes);
  each("reserved_bytes", of.reserved_bytes);
  each("budget_bytes", of.budget_bytes);
  each("inherited_bytes", of.inherited_bytes);
  each("private_bytes", of.private_bytes);
  each("file_bytes", of.file_bytes);
  each("lent", of.lent);
  each("borrowed", of.borrowed);
  each("devices", of.devices);
}

// The inspecting process knows the first two, the error and the topics itself: inspection.cpp.
template <typename Each>
void list_fields(Each& each, IsReport<ParticipantReport> auto& of) {
  each("participant", of.participant);
  each("pid", of.pid);
  each("process", of.process);
  each("error", of.error);
  each("version", of.version);
  each("age_ns", of.age);
  each("nodes", of.nodes);
  each("topics", of.topics);
  each("publishers", of.publishers);
  each("subscribers", of.subscribers);
  each("queues", of.queues);
  each("shares", of.shares);
  each("memory", of.memory);
}

struct NoField {
  void operator()(const char*, const auto&) const noexcept {}
};

// A struct that has a list above.
template <typename Some>
concept HasList = requires(Some& some, NoField& each) { list_fields(each, some); };

}  // namespace tensorbus::bus
