// The participants of a domain.
#include "tensorbus/bus/listing.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/python/bindings.hpp"
#include "tensorbus/python/waiting.hpp"

namespace tensorbus::python {

void bind_listing(nb::module_& module) {
  nb::class_<PublisherInfo>(module, "PublisherInfo")
      .def_prop_ro("topic", [](const PublisherInfo& self) { return text_of(self.topic); })
      .def_prop_ro("node", [](const PublisherInfo& self) { return text_of(self.node); })
      .def_prop_ro("type",
                   [](const PublisherInfo& self) { return text_of(self.type.definition()); })
      .def_prop_ro("fingerprint", [](const PublisherInfo& self) { return self.type.fingerprint(); })
      .def_prop_ro("participant", [](const PublisherInfo& self) { return self.participant.hex(); })
      .def_ro("pid", &PublisherInfo::pid)
      .def_prop_ro(
          "publisher",
          [](const PublisherInfo& self) { return bus::to_string({self.participant, self.number}); })
      .def_ro("depth", &PublisherInfo::depth)
      .def_ro("history", &PublisherInfo::history)
      .def_ro("reliable", &PublisherInfo::reliable)
      .def_prop_ro("machine", [](const PublisherInfo& self) { return text_of(self.machine); })
      .def_prop_ro("origin", [](const PublisherInfo& self) { return text_of(self.origin); });
  nb::class_<NodeInfo>(module, "NodeInfo")
      .def_prop_ro("name", [](const NodeInfo& self) { return text_of(self.name); })
      .def_prop_ro("participant", [](const NodeInfo& self) { return self.participant.hex(); })
      .def_ro("pid", &NodeInfo::pid)
      .def_prop_ro("machine", [](const NodeInfo& self) { return text_of(self.machine); });
  nb::class_<bus::QueueInfo>(module, "QueueInfo")
      .def_prop_ro("name", [](const bus::QueueInfo& self) { return text_of(self.name); })
      .def_ro("address", &bus::QueueInfo::address)
      .def_prop_ro("queue",
                   [](const bus::QueueInfo& self) {
                     return bus::to_string({self.participant, self.number});
                   })
      .def_prop_ro("participant", [](const bus::QueueInfo& self) { return self.participant.hex(); })
      .def_ro("pid", &bus::QueueInfo::pid)
      .def_prop_ro("machine", [](const bus::QueueInfo& self) { return text_of(self.machine); })
      .def_prop_ro("origin", [](const bus::QueueInfo& self) { return text_of(self.origin); });
  nb::class_<bus::NodeName>(
      module, "NodeName",
      "The name of a node in the domain. The node has it while this object lives.")
      .def(nb::init<const std::string&, const ParticipantHandle&>(), nb::arg("name"),
           nb::arg("participant"));
  module.def("list_publishers", with_handle(bus::list_publishers), nb::arg("participant"),
             nb::call_guard<WithoutGil>());
  module.def("list_nodes", with_handle(bus::list_nodes), nb::arg("participant"),
             nb::call_guard<WithoutGil>());
  module.def("list_queues", with_handle(bus::list_queues), nb::arg("participant"),
             nb::call_guard<WithoutGil>(), "Returns the named queues of living participants.");
  module.def(
      "wait_for_topic",
      [](const std::string& topic, Seconds timeout, const ParticipantHandle& participant) {
        return wait_interruptibly(timeout, [&](const platform::StopCondition& stop) {
          return bus::wait_for_topic(topic, stop, participant);
        });
      },
      nb::arg("topic"), nb::arg("timeout").none(), nb::arg("participant"),
      nb::sig("def wait_for_topic(topic: str, timeout: float | None, participant: Participant) -> "
              "Outcome"));
  module.def(
      "wait_for_node",
      [](const std::string& name, Seconds timeout, const ParticipantHandle& participant) {
        return wait_interruptibly(timeout, [&](const platform::StopCondition& stop) {
          return bus::wait_for_node(name, stop, participant);
        });
      },
      nb::arg("name"), nb::arg("timeout").none(), nb::arg("participant"),
      nb::sig("def wait_for_node(name: str, timeout: float | None, participant: Participant) -> "
              "Outcome"));
  module.def(
      "fingerprint_of",
      [](const std::string& definition) { return MessageType(definition).fingerprint(); },
      nb::arg("definition"));
  module.def(
      "why_not",
      [](const std::string& expected, const std::string& published) {
        return MessageType(expected).why_not(MessageType(published));
      },
      nb::arg("expected"), nb::arg("published"),
      "Returns the reason why a reader that expects the definition `expected` cannot read "
      "messages of `published`; \"\" if it can.");
}

}  // namespace tensorbus::python
