#pragma once

#include <tensorbus/c/listing.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <tensorbus/id.hpp>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/internal/tensors.hpp>
#include <tensorbus/listed.hpp>
#include <tensorbus/message_type.hpp>
#include <tensorbus/options.hpp>
#include <tensorbus/participant.hpp>
#include <vector>

namespace tensorbus::inline v0 {

// The publishers and nodes of a domain, as its directory lists them. Only living ones; no daemon is
// involved.
//
//   for (const tensorbus::PublisherInfo& publisher : tensorbus::list_publishers())
//     std::cout << publisher.topic << " of " << publisher.pid << '\n';

namespace internal {

inline PublisherInfo info_of(const tb_publisher_info& info) {
  const std::string type = info.type;
  PublisherInfo told{info.topic, info.node, type.empty() ? MessageType() : MessageType(type),
                     id_of(info.participant), info.pid};
  if (info.struct_size < sizeof info) return told;  // an older library knows no more
  told.number = info.number;
  told.depth = info.depth;
  told.history = info.history;
  told.reliable = info.reliable != 0;
  told.machine = info.machine;
  told.origin = info.origin;
  return told;
}
inline NodeInfo info_of(const tb_node_info& info) {
  NodeInfo told{info.name, id_of(info.participant), info.pid};
  // An older library does not have this field.
  if (info.struct_size >= offsetof(tb_node_info, machine) + sizeof info.machine)
    told.machine = info.machine;
  return told;
}

// Collects the items of a listing in C.
template <typename Info>
struct Told {
  std::vector<Info> all;
  Caught caught;

  template <typename CInfo>
  static int tell(const CInfo* info, void* context) noexcept {
    auto& told = *static_cast<Told*>(context);
    return told.caught.held([&] {
      told.all.push_back(info_of(*info));
      return 0;
    });
  }
};

template <typename Info, typename CInfo>
std::vector<Info> listed(tb_status (*list)(tb_participant*, int (*)(const CInfo*, void*), void*),
                         const Participant& participant) {
  Told<Info> told;
  require_done(list(get(participant), &Told<Info>::template tell<CInfo>, &told));
  told.caught.rethrow();
  return std::move(told.all);
}

}  // namespace internal

inline std::vector<PublisherInfo> list_publishers(
    const Participant& participant = Participant::shared()) {
  return internal::listed<PublisherInfo>(tb_list_publishers, participant);
}
inline std::vector<NodeInfo> list_nodes(const Participant& participant = Participant::shared()) {
  return internal::listed<NodeInfo>(tb_list_nodes, participant);
}

// Waits for a publisher of the topic, or a node: kDone, kTimedOut or kInterrupted.
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

// Keeps a node's name in the domain while it lives. Several may have the same name.
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
