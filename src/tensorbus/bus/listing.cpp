#include "tensorbus/bus/listing.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "tensorbus/bus/domain/advertisement.hpp"
#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/participant/participant.hpp"
#include "tensorbus/bus/queue_client/queue_markers.hpp"
#include "tensorbus/platform/limits.hpp"

namespace tensorbus::bus {
namespace {

struct Found {
  Marker marker;
  Advertisement advertisement;
};

// Returns the markers of living participants that `is_wanted` accepts.
template <typename IsWanted>
std::vector<Found> look_for(const Domain& domain, const std::vector<std::string>& files,
                            IsWanted is_wanted) {
  std::vector<Found> all;
  std::map<Id, bool> dead;
  for (const std::string& file : files) {
    const auto marker = parse_marker(file);
    if (!marker || !is_wanted(*marker)) continue;
    auto advertisement = decode_advertisement(domain.read_marker(file, kMaxMarkerBytes));
    if (!advertisement) continue;
    const auto [known, is_new] = dead.try_emplace(marker->participant, false);
    if (is_new) known->second = domain.is_dead(marker->participant);
    if (!known->second) all.push_back({*marker, *std::move(advertisement)});
  }
  return all;
}

bool is_node(const Marker& marker) { return marker.escaped_topic.starts_with(kNodeMarker); }
bool is_queue(const Marker& marker) { return marker.escaped_topic.starts_with(kQueueMarker); }
bool is_topic(const Marker& marker) { return marker.is_topic(); }

// Returns the type "any" for a malformed definition, because a peer may write any text.
MessageType type_of(std::string definition) {
  if (definition.empty()) return {};
  try {
    return MessageType(std::move(definition));
  } catch (const Error&) {
    return {};
  }
}

// A node on another machine has no marker here. The mirrors of its publishers have markers.
bool is_mirror_of_node(const Found& found) {
  return is_topic(found.marker) && !found.advertisement.machine.empty() &&
         !found.advertisement.node.empty();
}

template <typename IsWanted, typename IsMet>
Outcome wait_for(IsWanted is_wanted, IsMet is_met, const platform::StopCondition& stop,
                 const ParticipantRef& participant) {
  const Domain& domain = participant->domain();
  return domain.wait(stop, [&] {
    const std::vector<std::string> files = domain.list();
    return std::ranges::any_of(look_for(domain, files, is_wanted), is_met);
  });
}

}  // namespace

std::vector<PublisherInfo> list_publishers(const ParticipantRef& participant) {
  return platform::with_memory_errors([&] {
    const Domain& domain = participant->domain();
    const std::vector<std::string> files = domain.list();
    std::vector<PublisherInfo> all;
    for (Found& found : look_for(domain, files, is_topic))
      all.push_back({std::move(found.advertisement.name), std::move(found.advertisement.node),
                     type_of(std::move(found.advertisement.definition)), found.marker.participant,
                     found.advertisement.pid, found.marker.publisher, found.advertisement.depth,
                     found.advertisement.history, found.advertisement.reliable != 0,
                     std::move(found.advertisement.machine),
                     std::move(found.advertisement.origin)});
    return all;
  });
}

std::vector<NodeInfo> list_nodes(const ParticipantRef& participant) {
  return platform::with_memory_errors([&] {
    const Domain& domain = participant->domain();
    const std::vector<std::string> files = domain.list();
    std::vector<NodeInfo> all;
    std::set<std::tuple<std::string, Id, std::string>> elsewhere;
    const auto is_wanted = [](const Marker& marker) { return is_node(marker) || is_topic(marker); };
    for (Found& found : look_for(domain, files, is_wanted)) {
      Advertisement& advertised = found.advertisement;
      if (is_node(found.marker)) {
        all.push_back({std::move(advertised.name), found.marker.participant, advertised.pid});
      } else if (is_mirror_of_node(found)) {
        const auto original = parse_publisher_name(advertised.origin);
        if (original &&
            elsewhere.emplace(advertised.machine, original->first, advertised.node).second)
          all.push_back(
              {std::move(advertised.node), original->first, 0, std::move(advertised.machine)});
      }
    }
    return all;
  });
}

std::vector<QueueInfo> list_queues(const ParticipantRef& participant) {
  return platform::with_memory_errors([&] {
    const Domain& domain = participant->domain();
    const std::vector<std::string> files = domain.list();
    std::vector<QueueInfo> all;
    for (Found& found : look_for(domain, files, is_queue)) {
      const Marker& marker = found.marker;
      all.push_back({std::move(found.advertisement.name),
                     to_text({marker.participant, {marker.publisher, 0}}), marker.participant,
                     found.advertisement.pid, marker.publisher,
                     std::move(found.advertisement.machine),
                     std::move(found.advertisement.origin)});
    }
    return all;
  });
}

Outcome wait_for_topic(const std::string& topic, const platform::StopCondition& stop,
                       const ParticipantRef& participant) {
  return platform::with_memory_errors([&] {
    const std::string escaped = escape_topic(topic);
    return wait_for([&](const Marker& marker) { return marker.escaped_topic == escaped; },
                    [&](const Found& found) { return found.advertisement.name == topic; }, stop,
                    participant);
  });
}

Outcome wait_for_node(const std::string& name, const platform::StopCondition& stop,
                      const ParticipantRef& participant) {
  return platform::with_memory_errors([&] {
    const std::string escaped = std::string(kNodeMarker) + escape_topic(name);
    const auto is_wanted = [&](const Marker& marker) {
      return marker.escaped_topic == escaped || is_topic(marker);
    };
    const auto is_met = [&](const Found& found) {
      return is_node(found.marker) ? found.advertisement.name == name
                                   : is_mirror_of_node(found) && found.advertisement.node == name;
    };
    return wait_for(is_wanted, is_met, stop, participant);
  });
}

struct NodeName::State {
  static constexpr const char* kMovedFrom = "this name was moved from";
  const ParticipantRef participant;
  std::string marker{};

  ~State() {
    if (!marker.empty()) participant->domain().remove_file(marker);
  }
};

NodeName::NodeName(const std::string& name, const ParticipantRef& participant) {
  platform::with_memory_errors([&] {
    state_.emplace(participant);
    state_->marker =
        participant->advertise_node(std::string(kNodeMarker) + escape_topic(name), name);
  });
}
NodeName::NodeName(NodeName&&) noexcept = default;
NodeName& NodeName::operator=(NodeName&&) noexcept = default;
NodeName::~NodeName() = default;

}  // namespace tensorbus::bus
