#pragma once

#include <tensorbus/c/listing.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/internal/tensors.hpp>
#include <tensorbus/participant.hpp>
#include <tensorbus/values/id.hpp>
#include <tensorbus/values/listed.hpp>
#include <tensorbus/values/message_type.hpp>
#include <tensorbus/values/options.hpp>
#include <vector>

namespace tensorbus::inline v0 {

// Lists the living publishers and nodes of a domain. They are read from its directory, without a
// daemon.
//
//   for (const tensorbus::PublisherInfo& publisher : tensorbus::list_publishers())
//     std::cout << publisher.topic << " of " << publisher.pid << '\n';

namespace internal {

inline PublisherInfo info_of(const tb_publisher_info& info) {
  const std::string type = info.type;
  PublisherInfo made{info.topic, info.node, type.empty() ? MessageType() : MessageType(type),
                     id_of(info.participant), info.pid};
  if (info.struct_size < sizeof info) return made;  // an older library knows no more
  made.number = info.number;
  made.depth = info.depth;
  made.history = info.history;
  made.reliable = info.reliable != 0;
  made.machine = info.machine;
  made.origin = info.origin;
  return made;
}
inline NodeInfo info_of(const tb_node_info& info) {
  NodeInfo made{info.name, id_of(info.participant), info.pid};
  // An older library does not have this field.
  if (info.struct_size >= offsetof(tb_node_info, machine) + sizeof info.machine)
    made.machine = info.machine;
  return made;
}

// Collects the items of a listing in C.
template <typename Info>
struct Collected {
  std::vector<Info> all;
  Caught caught;

  template <typename CInfo>
  static int tell(const CInfo* info, void* context) noexcept {
    auto& collected = *static_cast<Collected*>(context);
    return collected.caught.held([&] {
      collected.all.push_back(info_of(*info));
      return 0;
    });
  }
};

template <typename Info, typename CInfo>
std::vector<Info> listed(tb_status (*list)(tb_participant*, int (*)(const CInfo*, void*), void*),
                         const Participant& participant) {
  Collected<Info> collected;
  require_done(list(get(participant), &Collected<Info>::template tell<CInfo>, &collected));
  collected.caught.rethrow();
  return std::move(collected.all);
}

}  // namespace internal

inline std::vector<PublisherInfo> list_publishers(
    const Participant& participant = Participant::shared()) {
  return internal::listed<PublisherInfo>(tb_list_publishers, participant);
}
inline std::vector<NodeInfo> list_nodes(const Participant& participant = Participant::shared()) {
  return internal::listed<NodeInfo>(tb_list_nodes, participant);
}

// Wait for a publisher of the topic, or for a node. Return kDone, kTimedOut or kInterrupted.
inline Outcome wait_for_topic(const std::string& topic, std::chrono::nanoseconds timeout,
                              const GiveUp& give_up = {},
                              const Participant& participant = Participant::shared()) {
  internal::Asked asked(give_up);
  return internal::outcome_of(asked.ended(tb_wait_for_topic(internal::get(participant),
                                                            internal::c_text(topic, "the topic"),
                                                            timeout.count(), asked.get())));
}
inline Outcome wait_for_node(const std::string& name, std::chrono::nanoseconds timeout,
                             const GiveUp& give_up = {},
                             const Participant& participant = Participant::shared()) {
  internal::Asked asked(give_up);
  return internal::outcome_of(
      asked.ended(tb_wait_for_node(internal::get(participant), internal::c_text(name, "the name"),
                                   timeout.count(), asked.get())));
}

// Lists a node's name in the domain while this object exists. Several nodes may have the same name.
//
//   const tensorbus::NodeName name("camera");
class NodeName {
 public:
  // Throws Error(kInvalidArgument) for an empty name or one of more than 2,048 bytes.
  explicit NodeName(const std::string& name, const Participant& participant = Participant::shared())
      : node_(internal::created<decltype(node_)>([&](tb_node_name** node) {
          return tb_node_name_create(internal::get(participant), internal::c_text(name, "the name"),
                                     node);
        })) {}

 private:
  internal::Owned<tb_node_name, tb_node_name_destroy> node_;
};

}  // namespace tensorbus::inline v0
