#include "tensorbus/bus/listing.hpp"

#include <algorithm>

#include "tensorbus/c/guard.hpp"
#include "tensorbus/c/objects.hpp"

using namespace tensorbus;
using namespace tensorbus::c;

tb_status tb_list_publishers(tb_participant* participant, tb_tell_publisher tell, void* context) {
  return done([&] {
    (void)required(tell, "tell");
    for (const PublisherInfo& found : bus::list_publishers(participant_of(participant))) {
      tb_publisher_info info{.struct_size = sizeof(tb_publisher_info),
                             .pid = found.pid,
                             .topic = found.topic.c_str(),
                             .node = found.node.c_str(),
                             .type = found.type.definition().c_str(),
                             .participant = {},
                             .number = found.number,
                             .depth = found.depth,
                             .history = found.history,
                             .reliable = found.reliable ? 1U : 0U,
                             .machine = found.machine.c_str(),
                             .origin = found.origin.c_str()};
      std::ranges::copy(found.participant.bytes, info.participant);
      if (tell(&info, context) != 0) return;
    }
  });
}

tb_status tb_list_nodes(tb_participant* participant, tb_tell_node tell, void* context) {
  return done([&] {
    (void)required(tell, "tell");
    for (const NodeInfo& found : bus::list_nodes(participant_of(participant))) {
      tb_node_info info{.struct_size = sizeof(tb_node_info),
                        .pid = found.pid,
                        .name = found.name.c_str(),
                        .participant = {},
                        .machine = found.machine.c_str()};
      std::ranges::copy(found.participant.bytes, info.participant);
      if (tell(&info, context) != 0) return;
    }
  });
}

tb_status tb_wait_for_topic(tb_participant* participant, const char* topic, int64_t timeout_ns,
                            const tb_give_up* give_up) {
  return guarded([&] {
    return status_of(bus::wait_for_topic(text_of(topic, "topic"), stop_of(timeout_ns, give_up),
                                         participant_of(participant)));
  });
}

tb_status tb_wait_for_node(tb_participant* participant, const char* name, int64_t timeout_ns,
                           const tb_give_up* give_up) {
  return guarded([&] {
    return status_of(bus::wait_for_node(text_of(name, "name"), stop_of(timeout_ns, give_up),
                                        participant_of(participant)));
  });
}

tb_status tb_node_name_create(tb_participant* participant, const char* name, tb_node_name** node) {
  return done([&] {
    hand_out(node, "node", [&] {
      return new tb_node_name{bus::NodeName(text_of(name, "name"), participant_of(participant))};
    });
  });
}

void tb_node_name_destroy(tb_node_name* node) { delete node; }
