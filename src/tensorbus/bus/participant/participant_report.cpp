// The report of a participant for a process that inspects it (INSPECT).

#include <map>
#include <set>

#include "tensorbus/bus/domain/advertisement.hpp"
#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/inspect/process_info.hpp"
#include "tensorbus/bus/participant/participant.hpp"
#include "tensorbus/bus/session/queue_requests.hpp"
#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/faults/private_pages.hpp"
#include "tensorbus/version.hpp"

namespace tensorbus::bus {
namespace {

std::vector<std::string> nodes_of(const Domain& domain) {
  std::vector<std::string> names;
  for (const auto& [file, content] : domain.marked(kNodeMarker))
    if (auto found = decode_advertisement(content)) names.push_back(std::move(found->name));
  return names;
}

// Sets the machine of each mirror: the machine of the queue that the mirror represents.
void name_machines(const Domain& domain, std::vector<QueueReport>& queues) {
  std::map<std::uint64_t, std::string> machines;
  for (const auto& [file, content] : domain.marked(kQueueMarker)) {
    const auto marker = parse_marker(file);
    auto found = decode_advertisement(content);
    if (marker && found) machines.emplace(marker->publisher, std::move(found->machine));
  }
  for (QueueReport& queue : queues)
    if (const auto found = machines.find(queue.number); found != machines.end())
      queue.machine = found->second;
}

using PeerKey = std::pair<Id, std::uint32_t>;  // participant and pid

PeerKey key_of(const PeerName& peer) { return {peer.participant, peer.pid}; }

template <typename Report>
std::vector<Report> values_of(std::map<PeerKey, Report>&& by_peer) {
  std::vector<Report> all;
  for (auto& [peer, report] : by_peer) all.push_back(std::move(report));
  return all;
}

std::vector<LentReport> lent_by(const InboundConnections& inbound,
                                const OutboundConnections& outbound) {
  const std::uint64_t now = platform::wall_clock_ns();
  std::map<PeerKey, LentReport> lent;
  const auto sum_of = [&](const PeerSession& session) -> LentReport& {
    const PeerName peer = session.peer_name();
    LentReport& sum = lent[key_of(peer)];
    sum.peer = peer;
    return sum;
  };
  for (const auto& connection : inbound.all())
    connection->add_lent(sum_of(*connection->session()), now);
  for (const auto& session : outbound.sessions()) session->add_lent(sum_of(*session));
  std::erase_if(lent, [](const auto& item) { return item.second.leases == 0; });
  return values_of(std::move(lent));
}

std::vector<BorrowedReport> borrowed_by(const InboundConnections& inbound,
                                        const OutboundConnections& outbound,
                                        const link::LeaseIndex& leases) {
  std::map<PeerKey, BorrowedReport> borrowed;
  std::set<const link::PeerMemory*> counted;
  const auto add = [&](const Id& owner, const link::PeerMemory& memory) {
    if (!counted.insert(&memory).second) return;
    const PeerName peer{owner, static_cast<std::uint32_t>(memory.account.pid())};
    BorrowedReport& sum = borrowed[key_of(peer)];
    sum.peer = peer;
    for (const auto& use : {memory.segments.use(), memory.writable_segments.use()}) {
      sum.segments += use.segments;
      sum.bytes += use.bytes;
    }
  };
  for (const auto& [owner, memory] : outbound.memory()) add(owner, *memory);
  for (const auto& connection : inbound.all())
    add(connection->session()->peer_name().participant, *connection->session()->peer_memory());
  auto counts = leases.count_by_owner();
  for (auto& [peer, sum] : borrowed) {
    const auto found = counts.find(peer.first);
    if (found == counts.end()) continue;
    sum.leases = found->second;
    counts.erase(found);
  }
  for (const auto& [owner, count] : counts)  // passed on by other participants; the owner is dead
    borrowed[{owner, 0}] = {.peer = {owner}, .leases = count};
  std::erase_if(borrowed, [](const auto& item) {
    return item.second.leases == 0 && item.second.segments == 0;
  });
  return values_of(std::move(borrowed));
}

MemoryReport memory_of(const ParticipantContext& context) {
  const ArenaUse use = context.arena->stats();
  MemoryReport memory{.segments = use.segments,
                      .blocks = use.blocks,
                      .used_bytes = use.used_bytes,
                      .reserved_bytes = use.reserved_bytes,
                      .budget_bytes = use.budget_bytes,
                      .inherited_bytes = use.inherited_bytes,
                      .private_bytes = platform::CopyOnWrite::private_bytes(),
                      .file_bytes = context.arena->files().bytes()};
  for (const auto& [ordinal, on_device] : context.device_memory->stats())
    memory.devices.push_back({"cuda:" + std::to_string(ordinal), on_device.used_bytes,
                              on_device.reserved_bytes, on_device.budget_bytes});
  return memory;
}

}  // namespace

ParticipantReport Participant::report() {
  ParticipantReport report{.participant = id(),
                           .process = process_name("self"),
                           .version = kVersion,
                           .age = platform::Clock::now() - since_,
                           .nodes = nodes_of(domain_)};
  for (const auto& publisher : publishers_.living())
    report.publishers.push_back(publisher->report());
  for (const auto& subscriber : subscriptions_.living())
    report.subscribers.push_back(subscriber->report());
  report.queues = context_.queues->report();
  name_machines(domain_, report.queues);
  report.shares = context_.shares.report();
  report.memory = memory_of(context_);
  report.memory.lent = lent_by(inbound_, outbound_);
  report.memory.borrowed = borrowed_by(inbound_, outbound_, *context_.lent);
  return report;
}

}  // namespace tensorbus::bus
