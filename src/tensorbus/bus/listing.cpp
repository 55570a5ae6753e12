#include "tensorbus/bus/listing.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "tensorbus/bus/domain/advertisement.hpp"
#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/event_loop/fork_safe.hpp"
#include "tensorbus/bus/participant/participant_core.hpp"
#include "tensorbus/platform/limits.hpp"

namespace tensorbus {
namespace {

constexpr std::size_t kMostContent = 65'536;  // of a marker

// "node" and a name; '=' is in no topic's file name, so they cannot be taken for one another.
constexpr std::string_view kNode = "node=";

struct Found {
  bus::Marker marker;
  bus::Advertisement advertisement;
};

// Those markers that `is_wanted`, of participants that have not died.
template <typename IsWanted>
std::vector<Found> look_for(const bus::Domain& domain, const std::vector<std::string>& files,
                            IsWanted is_wanted) {
  std::vector<Found> all;
  std::map<Id, bool> dead;
  for (const std::string& file : files) {
    const auto marker = bus::parse_marker(file);
    if (!marker || !is_wanted(*marker)) continue;
    auto advertisement = bus::decode_advertisement(domain.read_marker(file, kMostContent));
    if (!advertisement) continue;
    const auto [known, is_new] = dead.try_emplace(marker->participant, false);
    if (is_new) known->second = domain.is_dead(marker->participant);
    if (!known->second) all.push_back({*marker, *std::move(advertisement)});
  }
  return all;
}

bool is_node(const bus::Marker& marker) { return marker.escaped_topic.starts_with(kNode); }
bool is_topic(const bus::Marker& marker) {
  return marker.escaped_topic.find('=') == std::string_view::npos;
}

// Peers wrote it.
MessageType type_of(std::string definition) {
  if (definition.empty()) return {};
  try {
    return MessageType(std::move(definition));
  } catch (const Error&) {
    return {};
  }
}

Outcome wait_for(const std::string& escaped, const std::string& name,
                 std::chrono::nanoseconds timeout, const GiveUp& give_up,
                 const bus::Domain& domain) {
  return domain.wait(timeout, give_up, [&] {
    const std::vector<std::string> files = domain.list();
    const auto all = look_for(
        domain, files, [&](const bus::Marker& marker) { return marker.escaped_topic == escaped; });
    return std::ranges::any_of(
        all, [&](const Found& found) { return found.advertisement.name == name; });
  });
}

}  // namespace

// What listing takes of a participant.
struct Listing {
  static const bus::Domain& domain(const Participant& participant) {
    return participant.core()->domain();
  }
  static const std::shared_ptr<bus::ParticipantCore>& core(const Participant& participant) {
    return participant.core();
  }
};

std::vector<PublisherInfo> list_publishers(const Participant& participant) {
  return platform::with_memory_errors([&] {
    const bus::Domain& domain = Listing::domain(participant);
    const std::vector<std::string> files = domain.list();
    std::vector<PublisherInfo> all;
    for (Found& found : look_for(domain, files, is_topic))
      all.push_back({std::move(found.advertisement.name), std::move(found.advertisement.node),
                     type_of(std::move(found.advertisement.definition)), found.marker.participant,
                     found.advertisement.pid});
    return all;
  });
}

std::vector<NodeInfo> list_nodes(const Participant& participant) {
  return platform::with_memory_errors([&] {
    const bus::Domain& domain = Listing::domain(participant);
    const std::vector<std::string> files = domain.list();
    std::vector<NodeInfo> all;
    for (Found& found : look_for(domain, files, is_node))
      all.push_back(
          {std::move(found.advertisement.name), found.marker.participant, found.advertisement.pid});
    return all;
  });
}

Outcome wait_for_topic(const std::string& topic, std::chrono::nanoseconds timeout,
                       const GiveUp& give_up, const Participant& participant) {
  return platform::with_memory_errors([&] {
    return wait_for(bus::escape_topic(topic), topic, timeout, give_up,
                    Listing::domain(participant));
  });
}

Outcome wait_for_node(const std::string& name, std::chrono::nanoseconds timeout,
                      const GiveUp& give_up, const Participant& participant) {
  return platform::with_memory_errors([&] {
    return wait_for(std::string(kNode) + bus::escape_topic(name), name, timeout, give_up,
                    Listing::domain(participant));
  });
}

struct NodeName::Impl {
  struct State {
    std::shared_ptr<bus::ParticipantCore> participant;
    std::string marker;
  };
  bus::ForkSafe<State> state;

  ~Impl() {
    if (!state.forked() && state) state->participant->domain().remove_file(state->marker);
  }
};

NodeName::NodeName(const std::string& name, const Participant& participant) {
  platform::with_memory_errors([&] {
    const auto& core = Listing::core(participant);
    std::string marker = core->advertise_node(std::string(kNode) + bus::escape_topic(name), name);
    impl_.reset(new Impl{bus::ForkSafe(Impl::State{core, std::move(marker)})});
  });
}
NodeName::NodeName(NodeName&&) noexcept = default;
NodeName& NodeName::operator=(NodeName&&) noexcept = default;
NodeName::~NodeName() = default;

}  // namespace tensorbus
