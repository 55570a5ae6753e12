#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <tensorbus/values/id.hpp>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/stats.hpp>
#include <vector>

namespace tensorbus::inline v0 {

// The result of inspect(): the objects of the participants of a domain, and the holders of their
// memory.

// A process at the other end of a connection.
struct PeerName {
  Id participant{};       // all zero: unknown
  std::uint32_t pid = 0;  // in the pid namespace of the inspected process; 0: not visible there
  std::string process{};  // the name of its program; empty: unknown
};

// One subscriber of a publisher, with the publisher's counters.
struct LinkReport {
  PeerName subscriber{};
  std::string node{};
  std::uint32_t depth = 0;
  std::uint32_t max_held = 0;
  bool reliable = false;        // the publisher waits for it
  std::uint64_t delivered = 0;  // samples put into its queue
  std::uint32_t waiting = 0;    // samples in its queue now
  std::uint32_t held = 0;       // received and not released
  // Bytes of the waiting and held samples. Several processes may hold the same bytes.
  std::uint64_t held_bytes = 0;
  // The age of the oldest of these samples; 0: there are none.
  std::chrono::nanoseconds oldest_held{};
  std::uint64_t dropped_depth = 0;
  std::uint64_t dropped_held = 0;
  std::uint64_t dropped_unsent = 0;
  // How long a waiting publisher has had no room in this queue; 0: there is room.
  std::chrono::nanoseconds blocked{};
  bool cut_off = false;  // was cut off after `lag_timeout`, and still holds samples
};

// A publisher, its counters and its subscribers.
struct PublisherReport {
  std::string topic{};
  std::uint32_t number = 0;  // unique in its participant
  std::string node{};
  std::string type{};     // the definition of its message type; empty: any
  std::string machine{};  // for a mirror: the machine of `origin`; empty: this machine
  std::string origin{};   // for a mirror: the publisher that it represents, "<id>.<n>"; else empty
  std::uint32_t depth = 0;
  std::uint32_t history = 0;
  bool reliable = false;
  bool shared = false;
  bool isolated = false;
  std::uint64_t bytes_sent = 0;  // of the tensors and fields of all published samples
  PublisherStats stats{};
  std::vector<LinkReport> links{};
};

// A subscriber and its counters.
struct SubscriberReport {
  std::string topic{};
  std::string node{};
  std::string type{};
  std::uint32_t depth = 0;
  std::uint32_t max_held = 0;
  bool reliable = false;
  Access access = Access::kRead;
  SubscriberStats stats{};
  std::vector<std::string> publishers{};  // to which it is connected, "<id>.<n>"
};

// A process that uses a queue.
struct QueueClientReport {
  PeerName client{};
  // Items that it got and has not finished; without `redeliver`, until its next get().
  std::uint64_t in_hand = 0;
  std::uint32_t waiting_puts = 0;
  std::uint32_t waiting_gets = 0;
};

// A queue, with the counters of its process. For a mirror, `stats` counts the items that wait in
// it.
struct QueueReport {
  std::string name{};     // empty: it has only an address
  std::string service{};  // the service whose requests it carries; empty if none
  std::uint64_t number = 0;
  std::string machine{};  // for a mirror: the machine of the queue that it represents
  std::uint32_t maxsize = 0;
  std::uint64_t max_bytes = 0;
  bool redeliver = false;
  bool shut_down = false;
  std::uint64_t in_hand = 0;      // of all clients
  std::uint64_t redelivered = 0;  // items that came back from processes that died
  QueueStats stats{};
  std::vector<QueueClientReport> clients{};
};

// A share, with the counters of its process.
struct ShareReport {
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;
  std::uint32_t uses_left = 0;  // how often it can still be attached; 0: any number of times
  std::chrono::nanoseconds age{};
};

// Memory that one peer has from this process: through links, queues and shares together.
struct LentReport {
  PeerName peer{};
  std::uint64_t leases = 0;
  std::uint64_t bytes = 0;
  // The age of the oldest sample on links; 0: there are none.
  std::chrono::nanoseconds oldest{};
};

// Memory of one peer that is mapped in this process.
struct BorrowedReport {
  PeerName peer{};
  std::uint64_t segments = 0;
  std::uint64_t bytes = 0;
  std::uint64_t leases = 0;
};

// Memory of a participant on one GPU.
struct DeviceReport {
  std::string device{};  // "cuda:0"
  std::uint64_t used_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t budget_bytes = 0;
};

// The memory of a participant.
struct MemoryReport {
  std::uint64_t segments = 0;
  std::uint64_t blocks = 0;
  std::uint64_t used_bytes = 0;      // in loans and held samples
  std::uint64_t reserved_bytes = 0;  // taken from the machine: used, or kept for reuse
  std::uint64_t budget_bytes = 0;
  std::uint64_t inherited_bytes = 0;  // of used_bytes: kept only for forked children
  std::uint64_t private_bytes = 0;    // copied because the process wrote to received tensors
  std::uint64_t file_bytes = 0;       // of mapped files that were lent
  std::vector<LentReport> lent{};
  std::vector<BorrowedReport> borrowed{};
  std::vector<DeviceReport> devices{};
};

// The objects that one process has on the bus.
struct ParticipantReport {
  Id participant{};
  std::uint32_t pid = 0;  // in the pid namespace of the inspecting process; 0: not visible there
  std::string process{};  // the name of its program
  std::string error{};    // why it did not reply; empty: it replied
  std::string version{};  // of its Tensorbus
  std::chrono::nanoseconds age{};
  std::vector<std::string> nodes{};
  // The topics that it publishes, according to its files. Like `nodes`, known even without a reply.
  std::vector<std::string> topics{};
  // The fields below are empty without a reply.
  std::vector<PublisherReport> publishers{};
  std::vector<SubscriberReport> subscribers{};
  std::vector<QueueReport> queues{};
  std::vector<ShareReport> shares{};
  MemoryReport memory{};
};

// The replies of the participants of a domain.
struct Inspection {
  std::string domain{};       // the path of its directory
  std::uint64_t time_ns = 0;  // when the replies had arrived: nanoseconds since 1970
  std::vector<ParticipantReport> participants{};  // by pid
};

}  // namespace tensorbus::inline v0
