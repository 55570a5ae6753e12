#include "tensorbus/bus/inspection.hpp"

#include <tensorbus/c/inspection.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tensorbus/inspected.hpp>
#include <utility>
#include <vector>

#include "tensorbus/c/guard.hpp"
#include "tensorbus/c/objects.hpp"
#include "tensorbus/c/stats.hpp"

using namespace tensorbus;
using namespace tensorbus::c;

namespace {

// An inspection in C structs, and all memory that they point to.
class OwnedInspection final : public tb_inspection {
 public:
  explicit OwnedInspection(Inspection found) : tb_inspection{}, found_(std::move(found)) {
    struct_size = sizeof(tb_inspection);
    domain = found_.domain.c_str();
    time_ns = found_.time_ns;
    participant_count = found_.participants.size();
    participants = listed<tb_participant_report>(found_.participants);
  }

 private:
  template <typename T>
  const T* kept(T made) {
    auto holder = std::make_shared<const T>(std::move(made));
    const T* const pointer = holder.get();
    kept_.push_back(std::move(holder));
    return pointer;
  }
  // Returns pointers to the results of described() for each part.
  template <typename Struct, typename Report>
  const Struct* const* listed(const std::vector<Report>& reports) {
    std::vector<Struct> structs;
    for (const Report& report : reports) structs.push_back(described(report));
    const auto* const all = kept(std::move(structs));
    std::vector<const Struct*> pointers;
    for (const Struct& one : *all) pointers.push_back(&one);
    return kept(std::move(pointers))->data();
  }
  const char* const* listed(const std::vector<std::string>& texts) {
    std::vector<const char*> pointers;
    for (const std::string& text : texts) pointers.push_back(text.c_str());
    return kept(std::move(pointers))->data();
  }

  tb_peer_name described(const PeerName& of) {
    tb_peer_name made{of.pid, 0, {}, of.process.c_str()};
    std::ranges::copy(of.participant.bytes, made.participant);
    return made;
  }
  tb_link_report described(const LinkReport& of) {
    return {.struct_size = sizeof(tb_link_report),
            .depth = of.depth,
            .max_held = of.max_held,
            .reliable = of.reliable ? 1 : 0,
            .subscriber = described(of.subscriber),
            .node = of.node.c_str(),
            .delivered = of.delivered,
            .waiting = of.waiting,
            .held = of.held,
            .held_bytes = of.held_bytes,
            .oldest_held_ns = of.oldest_held.count(),
            .dropped_depth = of.dropped_depth,
            .dropped_held = of.dropped_held,
            .dropped_unsent = of.dropped_unsent,
            .blocked_ns = of.blocked.count(),
            .cut_off = of.cut_off ? 1 : 0,
            .reserved = 0};
  }
  tb_publisher_report described(const PublisherReport& of) {
    return {.struct_size = sizeof(tb_publisher_report),
            .number = of.number,
            .depth = of.depth,
            .history = of.history,
            .reliable = of.reliable ? 1 : 0,
            .shared = of.shared ? 1 : 0,
            .isolated = of.isolated ? 1 : 0,
            .reserved = 0,
            .topic = of.topic.c_str(),
            .node = of.node.c_str(),
            .type = of.type.c_str(),
            .machine = of.machine.c_str(),
            .origin = of.origin.c_str(),
            .bytes_sent = of.bytes_sent,
            .stats = kept(c_stats(of.stats)),
            .link_count = of.links.size(),
            .links = listed<tb_link_report>(of.links)};
  }
  tb_subscriber_report described(const SubscriberReport& of) {
    return {.struct_size = sizeof(tb_subscriber_report),
            .depth = of.depth,
            .max_held = of.max_held,
            .reliable = of.reliable ? 1 : 0,
            .access = static_cast<std::int32_t>(of.access),  // same numbers in C
            .reserved = 0,
            .topic = of.topic.c_str(),
            .node = of.node.c_str(),
            .type = of.type.c_str(),
            .last_refusal = of.stats.last_refusal.c_str(),
            .stats = kept(c_stats(of.stats)),
            .publisher_count = of.publishers.size(),
            .publishers = listed(of.publishers)};
  }
  tb_queue_client_report described(const QueueClientReport& of) {
    return {.struct_size = sizeof(tb_queue_client_report),
            .waiting_puts = of.waiting_puts,
            .waiting_gets = of.waiting_gets,
            .reserved = 0,
            .client = described(of.client),
            .in_hand = of.in_hand};
  }
  tb_queue_report described(const QueueReport& of) {
    return {.struct_size = sizeof(tb_queue_report),
            .maxsize = of.maxsize,
            .redeliver = of.redeliver ? 1 : 0,
            .shut_down = of.shut_down ? 1 : 0,
            .name = of.name.c_str(),
            .service = of.service.c_str(),
            .machine = of.machine.c_str(),
            .number = of.number,
            .max_bytes = of.max_bytes,
            .in_hand = of.in_hand,
            .redelivered = of.redelivered,
            .stats = kept(c_stats(of.stats)),
            .client_count = of.clients.size(),
            .clients = listed<tb_queue_client_report>(of.clients)};
  }
  tb_share_report described(const ShareReport& of) {
    return {.struct_size = sizeof(tb_share_report),
            .uses_left = of.uses_left,
            .number = of.number,
            .bytes = of.bytes,
            .age_ns = of.age.count()};
  }
  tb_lent_report described(const LentReport& of) {
    return {.struct_size = sizeof(tb_lent_report),
            .reserved = 0,
            .peer = described(of.peer),
            .leases = of.leases,
            .bytes = of.bytes,
            .oldest_ns = of.oldest.count()};
  }
  tb_borrowed_report described(const BorrowedReport& of) {
    return {.struct_size = sizeof(tb_borrowed_report),
            .reserved = 0,
            .peer = described(of.peer),
            .segments = of.segments,
            .bytes = of.bytes,
            .leases = of.leases};
  }
  tb_device_report described(const DeviceReport& of) {
    return {.struct_size = sizeof(tb_device_report),
            .reserved = 0,
            .device = of.device.c_str(),
            .used_bytes = of.used_bytes,
            .reserved_bytes = of.reserved_bytes,
            .budget_bytes = of.budget_bytes};
  }
  tb_memory_report described(const MemoryReport& of) {
    return {.struct_size = sizeof(tb_memory_report),
            .reserved = 0,
            .segments = of.segments,
            .blocks = of.blocks,
            .used_bytes = of.used_bytes,
            .reserved_bytes = of.reserved_bytes,
            .budget_bytes = of.budget_bytes,
            .inherited_bytes = of.inherited_bytes,
            .private_bytes = of.private_bytes,
            .file_bytes = of.file_bytes,
            .lent_count = of.lent.size(),
            .lent = listed<tb_lent_report>(of.lent),
            .borrowed_count = of.borrowed.size(),
            .borrowed = listed<tb_borrowed_report>(of.borrowed),
            .device_count = of.devices.size(),
            .devices = listed<tb_device_report>(of.devices)};
  }
  tb_participant_report described(const ParticipantReport& of) {
    tb_participant_report made{.struct_size = sizeof(tb_participant_report),
                               .pid = of.pid,
                               .participant = {},
                               .process = of.process.c_str(),
                               .error = of.error.c_str(),
                               .version = of.version.c_str(),
                               .age_ns = of.age.count(),
                               .node_count = of.nodes.size(),
                               .nodes = listed(of.nodes),
                               .topic_count = of.topics.size(),
                               .topics = listed(of.topics),
                               .publisher_count = of.publishers.size(),
                               .publishers = listed<tb_publisher_report>(of.publishers),
                               .subscriber_count = of.subscribers.size(),
                               .subscribers = listed<tb_subscriber_report>(of.subscribers),
                               .queue_count = of.queues.size(),
                               .queues = listed<tb_queue_report>(of.queues),
                               .share_count = of.shares.size(),
                               .shares = listed<tb_share_report>(of.shares),
                               .memory = of.error.empty() ? kept(described(of.memory)) : nullptr};
    std::ranges::copy(of.participant.bytes, made.participant);
    return made;
  }

  const Inspection found_;
  std::vector<std::shared_ptr<const void>> kept_;
};

}  // namespace

tb_status tb_inspect(const char* domain, int64_t timeout_ns, tb_inspection** inspection) {
  return done([&] {
    hand_out(inspection, "inspection", [&] {
      const auto stop = platform::StopCondition::ignoring_signals(timeout_of(timeout_ns));
      return new OwnedInspection(inspect(domain == nullptr ? "" : domain, stop));
    });
  });
}

void tb_inspection_destroy(tb_inspection* inspection) {
  delete static_cast<OwnedInspection*>(inspection);
}
