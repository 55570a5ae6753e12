#include "tensorbus/cli/service/offers.hpp"

#include <algorithm>
#include <tensorbus/listing.hpp>

#include "tensorbus/cli/commands.hpp"

namespace tensorbus::cli {

Offers offers_of(const std::string& service, const std::string& node, const std::string& domain,
                 const Inspection& inspection) {
  const std::vector<NodeInfo> nodes = list_nodes(participant_of(domain));
  Offers found;
  for (const ParticipantReport& process : inspection.participants) {
    found.count += static_cast<std::size_t>(
        std::ranges::count(process.queues, service, &QueueReport::service));
    const bool has_node = std::ranges::any_of(nodes, [&](const NodeInfo& each) {
      return each.name == node && each.participant == process.participant;
    });
    if (has_node && !process.error.empty()) found.silent.push_back(process);
  }
  return found;
}

}  // namespace tensorbus::cli
