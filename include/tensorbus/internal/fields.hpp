#pragma once

#include <concepts>
#include <type_traits>

// The fields of each struct of counters, and of each report of an inspection: listed once, for the
// C structs (from_c.hpp, src/tensorbus/c/to_c.hpp), for INSPECTED (bus/inspect/report_codec.cpp)
// and for Python.
//
//   list_fields(each, of, in...)
//
// calls each(name, field, c_field...) for each field: `name` is the name in Python, `field` is the
// field in `of`, and `c_field` is the field in the C struct `in`, if one is given. The order is the
// order on the wire: new fields come last.
namespace tensorbus::inline v0 {

struct PeerName;
struct LinkReport;
struct PublisherStats;
struct PublisherReport;
struct SubscriberStats;
struct SubscriberReport;
struct QueueStats;
struct QueueClientReport;
struct QueueReport;
struct ShareReport;
struct LentReport;
struct BorrowedReport;
struct DeviceReport;
struct MemoryReport;
struct ParticipantReport;
struct Inspection;
struct ArenaUse;
struct RecorderStats;
struct PlayerStats;

namespace internal {

// A list in a C struct: two of its fields.
template <typename Items, typename Count>
struct CList {
  Items& items;
  Count& count;
};
template <typename Items, typename Count>
CList<Items, Count> c_list(Items& items, Count& count) noexcept {
  return {items, count};
}

template <typename Report, typename Of>
concept IsReport = std::same_as<std::remove_const_t<Report>, Of>;

template <typename Each>
void list_fields(Each& each, IsReport<PeerName> auto& of, auto&... in) {
  each("participant", of.participant, in.participant...);
  each("pid", of.pid, in.pid...);
  each("process", of.process, in.process...);
}

template <typename Each>
void list_fields(Each& each, IsReport<LinkReport> auto& of, auto&... in) {
  each("subscriber", of.subscriber, in.subscriber...);
  each("node", of.node, in.node...);
  each("depth", of.depth, in.depth...);
  each("max_held", of.max_held, in.max_held...);
  each("reliable", of.reliable, in.reliable...);
  each("delivered", of.delivered, in.delivered...);
  each("waiting", of.waiting, in.waiting...);
  each("held", of.held, in.held...);
  each("held_bytes", of.held_bytes, in.held_bytes...);
  each("oldest_held_ns", of.oldest_held, in.oldest_held_ns...);
  each("dropped_depth", of.dropped_depth, in.dropped_depth...);
  each("dropped_held", of.dropped_held, in.dropped_held...);
  each("dropped_unsent", of.dropped_unsent, in.dropped_unsent...);
  each("blocked_ns", of.blocked, in.blocked_ns...);
  each("cut_off", of.cut_off, in.cut_off...);
}

template <typename Each>
void list_fields(Each& each, IsReport<PublisherStats> auto& of, auto&... in) {
  each("sent", of.sent, in.sent...);
  each("delivered", of.delivered, in.delivered...);
  each("dropped_depth", of.dropped_depth, in.dropped_depth...);
  each("dropped_held", of.dropped_held, in.dropped_held...);
  each("dropped_unsent", of.dropped_unsent, in.dropped_unsent...);
  each("timed_out", of.timed_out, in.timed_out...);
  each("waited", of.waited, in.waited...);
  each("waiting", of.waiting, in.waiting...);
  each("bytes_copied", of.bytes_copied, in.bytes_copied...);
  each("bytes_in_flight", of.bytes_in_flight, in.bytes_in_flight...);
  each("subscribers", of.subscribers, in.subscribers...);
  each("bad_returns", of.bad_returns, in.bad_returns...);
  each("cut_off", of.cut_off, in.cut_off...);
  each("blocked_by", of.blocked_by, in.blocked_by...);
  each("blocked_ns", of.blocked_for, in.blocked_ns...);
}

template <typename Each>
void list_fields(Each& each, IsReport<PublisherReport> auto& of, auto&... in) {
  each("topic", of.topic, in.topic...);
  each("number", of.number, in.number...);
  each("node", of.node, in.node...);
  each("type", of.type, in.type...);
  each("machine", of.machine, in.machine...);
  each("origin", of.origin, in.origin...);
  each("depth", of.depth, in.depth...);
  each("history", of.history, in.history...);
  each("reliable", of.reliable, in.reliable...);
  each("shared", of.shared, in.shared...);
  each("isolated", of.isolated, in.isolated...);
  each("bytes_sent", of.bytes_sent, in.bytes_sent...);
  each("stats", of.stats, in.stats...);
  each("links", of.links, c_list(in.links, in.link_count)...);
}

template <typename Each>
void list_fields(Each& each, IsReport<SubscriberStats> auto& of, auto&... in) {
  each("received", of.received, in.received...);
  each("missed", of.missed, in.missed...);
  each("cut_off", of.cut_off, in.cut_off...);
  each("bad", of.bad, in.bad...);
  each("gone", of.gone, in.gone...);
  each("staged", of.staged, in.staged...);
  each("held", of.held, in.held...);
  each("publishers", of.publishers, in.publishers...);
  each("refused", of.refused, in.refused...);
  each("last_refusal", of.last_refusal);  // not in the C struct: tb_subscriber_last_refusal()
}

template <typename Each>
void list_fields(Each& each, IsReport<SubscriberReport> auto& of, auto&... in) {
  each("topic", of.topic, in.topic...);
  each("node", of.node, in.node...);
  each("type", of.type, in.type...);
  each("depth", of.depth, in.depth...);
  each("max_held", of.max_held, in.max_held...);
  each("reliable", of.reliable, in.reliable...);
  each("access", of.access, in.access...);
  each("stats", of.stats, in.stats...);
  each("publishers", of.publishers, c_list(in.publishers, in.publisher_count)...);
}

template <typename Each>
void list_fields(Each& each, IsReport<QueueStats> auto& of, auto&... in) {
  each("items", of.items, in.items...);
  each("unfinished", of.unfinished, in.unfinished...);
  each("lost", of.lost, in.lost...);
  each("bytes", of.bytes, in.bytes...);
}

template <typename Each>
void list_fields(Each& each, IsReport<QueueClientReport> auto& of, auto&... in) {
  each("client", of.client, in.client...);
  each("in_hand", of.in_hand, in.in_hand...);
  each("waiting_puts", of.waiting_puts, in.waiting_puts...);
  each("waiting_gets", of.waiting_gets, in.waiting_gets...);
}

template <typename Each>
void list_fields(Each& each, IsReport<QueueReport> auto& of, auto&... in) {
  each("name", of.name, in.name...);
  each("service", of.service, in.service...);
  each("number", of.number, in.number...);
  each("machine", of.machine, in.machine...);
  each("maxsize", of.maxsize, in.maxsize...);
  each("max_bytes", of.max_bytes, in.max_bytes...);
  each("redeliver", of.redeliver, in.redeliver...);
  each("shut_down", of.shut_down, in.shut_down...);
  each("in_hand", of.in_hand, in.in_hand...);
  each("redelivered", of.redelivered, in.redelivered...);
  each("stats", of.stats, in.stats...);
  each("clients", of.clients, c_list(in.clients, in.client_count)...);
}

template <typename Each>
void list_fields(Each& each, IsReport<ShareReport> auto& of, auto&... in) {
  each("number", of.number, in.number...);
  each("bytes", of.bytes, in.bytes...);
  each("uses_left", of.uses_left, in.uses_left...);
  each("age_ns", of.age, in.age_ns...);
}

template <typename Each>
void list_fields(Each& each, IsReport<LentReport> auto& of, auto&... in) {
  each("peer", of.peer, in.peer...);
  each("leases", of.leases, in.leases...);
  each("bytes", of.bytes, in.bytes...);
  each("oldest_ns", of.oldest, in.oldest_ns...);
}

template <typename Each>
void list_fields(Each& each, IsReport<BorrowedReport> auto& of, auto&... in) {
  each("peer", of.peer, in.peer...);
  each("segments", of.segments, in.segments...);
  each("bytes", of.bytes, in.bytes...);
  each("leases", of.leases, in.leases...);
}

template <typename Each>
void list_fields(Each& each, IsReport<DeviceReport> auto& of, auto&... in) {
  each("device", of.device, in.device...);
  each("used_bytes", of.used_bytes, in.used_bytes...);
  each("reserved_bytes", of.reserved_bytes, in.reserved_bytes...);
  each("budget_bytes", of.budget_bytes, in.budget_bytes...);
}

template <typename Each>
void list_fields(Each& each, IsReport<MemoryReport> auto& of, auto&... in) {
  each("segments", of.segments, in.segments...);
  each("blocks", of.blocks, in.blocks...);
  each("used_bytes", of.used_bytes, in.used_bytes...);
  each("reserved_bytes", of.reserved_bytes, in.reserved_bytes...);
  each("budget_bytes", of.budget_bytes, in.budget_bytes...);
  each("inherited_bytes", of.inherited_bytes, in.inherited_bytes...);
  each("private_bytes", of.private_bytes, in.private_bytes...);
  each("file_bytes", of.file_bytes, in.file_bytes...);
  each("lent", of.lent, c_list(in.lent, in.lent_count)...);
  each("borrowed", of.borrowed, c_list(in.borrowed, in.borrowed_count)...);
  each("devices", of.devices, c_list(in.devices, in.device_count)...);
}

// The inspecting process itself sets `participant`, `pid`, `error` and `topics` (inspection.cpp).
template <typename Each>
void list_fields(Each& each, IsReport<ParticipantReport> auto& of, auto&... in) {
  each("participant", of.participant, in.participant...);
  each("pid", of.pid, in.pid...);
  each("process", of.process, in.process...);
  each("error", of.error, in.error...);
  each("version", of.version, in.version...);
  each("age_ns", of.age, in.age_ns...);
  each("nodes", of.nodes, c_list(in.nodes, in.node_count)...);
  each("topics", of.topics, c_list(in.topics, in.topic_count)...);
  each("publishers", of.publishers, c_list(in.publishers, in.publisher_count)...);
  each("subscribers", of.subscribers, c_list(in.subscribers, in.subscriber_count)...);
  each("queues", of.queues, c_list(in.queues, in.queue_count)...);
  each("shares", of.shares, c_list(in.shares, in.share_count)...);
  each("memory", of.memory, in.memory...);
}

template <typename Each>
void list_fields(Each& each, IsReport<Inspection> auto& of, auto&... in) {
  each("domain", of.domain, in.domain...);
  each("time_ns", of.time_ns, in.time_ns...);
  each("participants", of.participants, c_list(in.participants, in.participant_count)...);
}

template <typename Each>
void list_fields(Each& each, IsReport<ArenaUse> auto& of, auto&... in) {
  each("segments", of.segments, in.segments...);
  each("blocks", of.blocks, in.blocks...);
  each("used_bytes", of.used_bytes, in.used_bytes...);
  each("reserved_bytes", of.reserved_bytes, in.reserved_bytes...);
  each("budget_bytes", of.budget_bytes, in.budget_bytes...);
  each("inherited_bytes", of.inherited_bytes, in.inherited_bytes...);
  each("inherited_leases", of.inherited_leases, in.inherited_leases...);
  each("forked_children", of.forked_children, in.forked_children...);
  each("unwatched_forks", of.unwatched_forks, in.unwatched_forks...);
}

template <typename Each>
void list_fields(Each& each, IsReport<RecorderStats> auto& of, auto&... in) {
  each("messages", of.messages, in.messages...);
  each("bytes", of.bytes, in.bytes...);
  each("files", of.files, in.files...);
  each("lost", of.lost, in.lost...);
  each("unwritable", of.unwritable, in.unwritable...);
  each("buffered_bytes", of.buffered_bytes, in.buffered_bytes...);
  each("topics", of.topics, in.topics...);
  each("error", of.error);
}

template <typename Each>
void list_fields(Each& each, IsReport<PlayerStats> auto& of, auto&... in) {
  each("messages", of.messages, in.messages...);
  each("left", of.left, in.left...);
  each("loops", of.loops, in.loops...);
  each("unreadable", of.unreadable, in.unreadable...);
  each("bytes_copied", of.bytes_copied, in.bytes_copied...);
  each("position_ns", of.position_ns, in.position_ns...);
  each("latest_ns", of.latest_ns, in.latest_ns...);
  each("late_ns", of.late_ns, in.late_ns...);
  each("rate", of.rate, in.rate...);
  each("paused", of.paused, in.paused...);
  each("ended", of.ended, in.ended...);
  each("error", of.error);
}

struct NoField {
  void operator()(const char*, const auto&) const noexcept {}
};

// A struct for which list_fields() is defined above.
template <typename Some>
concept HasList = requires(Some& some, NoField& each) { list_fields(each, some); };

}  // namespace internal
}  // namespace tensorbus::inline v0
