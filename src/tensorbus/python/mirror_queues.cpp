// Mirrors of queues of other machines. Bridges use them.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>

#include "tensorbus/bus/mirror_queue.hpp"
#include "tensorbus/platform/faults/private_pages.hpp"
#include "tensorbus/python/bindings.hpp"
#include "tensorbus/python/outgoing.hpp"

namespace tensorbus::python {
namespace {

using bus::MirrorQueue;
using MirrorQueueHandle = bus::ForkSafe<MirrorQueue>;

const char* name_of(link::QueueVerb verb) {
  switch (verb) {
    case link::QueueVerb::kState:
      return "state";
    case link::QueueVerb::kJoin:
      return "join";
    case link::QueueVerb::kShutDown:
      return "shutdown";
    case link::QueueVerb::kDrain:
      return "drain";
    default:
      return "close";
  }
}

nb::tuple tuple_of(MirrorQueue::Event&& event) {
  using Kind = MirrorQueue::Kind;
  switch (event.kind) {
    case Kind::kDemand:
      return nb::make_tuple("demand", event.value);
    case Kind::kPut:
      return nb::make_tuple("put", event.value, ReceivedSample(std::move(event.item)), event.waits);
    case Kind::kCall:
      return nb::make_tuple("call", event.value, name_of(event.verb), event.number);
    case Kind::kPoll:
      return nb::make_tuple("call", event.value, "poll", 0);
    case Kind::kCancel:
      return nb::make_tuple("cancel", event.value);
    case Kind::kTaken:
      return nb::make_tuple("taken", event.value);
    case Kind::kSpoilt:
      return nb::make_tuple("spoilt", event.value);
    case Kind::kDone:
      return nb::make_tuple("done", event.value);
    case Kind::kDied:
      return nb::make_tuple("died", event.value);
    default:
      return nb::make_tuple("passed", event.value);
  }
}

nb::list take_events(const MirrorQueueHandle& self) {
  nb::list list;
  for (MirrorQueue::Event& event : run_without_gil([&] { return self->take_events(); }))
    list.append(tuple_of(std::move(event)));
  return list;
}

void offer(const MirrorQueueHandle& self, Outgoing& outgoing, const nb::bytes& fields,
           std::uint64_t tag) {
  const Message message = outgoing.take(fields);
  run_without_gil([&] { self->offer(message, tag); });
  outgoing.clear();
}

}  // namespace

void bind_mirror_queues(nb::module_& module) {
  nb::class_<MirrorQueueHandle>(module, "MirrorQueue",
                                "A mirror of a queue of another machine, its home.")
      .def(
          "__init__",
          [](MirrorQueueHandle* self, const std::string& name, std::uint32_t maxsize,
             bool redeliver, std::uint64_t max_bytes,
             const std::pair<std::string, std::string>& origin,
             const ParticipantHandle& participant) {
            const WithoutGil release;
            platform::CopyOnWrite::look_for_handler();
            new (self)
                MirrorQueueHandle(std::in_place,
                                  QueueOptions{.maxsize = maxsize,
                                               .redeliver = redeliver,
                                               .name = name,
                                               .max_bytes = max_bytes},
                                  link::MirrorOrigin{origin.first, origin.second}, participant);
          },
          nb::kw_only(), nb::arg("name"), nb::arg("maxsize"), nb::arg("redeliver"),
          nb::arg("max_bytes"), nb::arg("origin"), nb::arg("participant"),
          "`origin`: the other machine, and the name of the queue on it.")
      .def_prop_ro("address", through<MirrorQueueHandle>(&MirrorQueue::address))
      .def("fileno", through<MirrorQueueHandle>(&MirrorQueue::descriptor),
           "Returns a descriptor to poll: readable when there may be new events since "
           "take_events().")
      .def("take_events", take_events,
           nb::sig("def take_events(self) -> list[tuple[typing.Any, ...]]"),
           "Returns the events in order: (\"demand\", gets), (\"put\", id, Sample, waits), "
           "(\"call\", id, verb, number), (\"cancel\", id), (\"taken\", tag), (\"spoilt\", tag), "
           "(\"done\", what), (\"died\", what), (\"passed\", items). `what` is the tag with "
           "`redeliver`, otherwise the number of items. The verb \"poll\" is a get that does not "
           "wait.")
      .def("offer", offer, nb::arg("outgoing"), nb::arg("fields"), nb::arg("tag"),
           nb::sig("def offer(self, outgoing: Outgoing, fields: bytes, tag: int) -> None"),
           "Adds an item for local gets. Tags must grow.")
      .def("withdraw", through<MirrorQueueHandle>(&MirrorQueue::withdraw), nb::arg("tag"),
           nb::call_guard<WithoutGil>(),
           "Takes a waiting item back. Returns False if it was offered or taken, or is gone.")
      .def("surplus", through<MirrorQueueHandle>(&MirrorQueue::surplus),
           nb::call_guard<WithoutGil>(),
           "Returns the tags of waiting items that no get waits for, the latest first.")
      .def("answer", through<MirrorQueueHandle>(&MirrorQueue::answer), nb::arg("id"),
           nb::arg("outcome"), nb::arg("values") = MirrorQueue::Values{},
           nb::call_guard<WithoutGil>(),
           nb::sig("def answer(self, id: int, outcome: Outcome, values: "
                   "collections.abc.Sequence[int] = (0, 0, 0, 0)) -> None"),
           "Answers a put or a call, once. If a poll gets an item, offer the item before the "
           "answer.")
      .def(
          "deny",
          [](const MirrorQueueHandle& self, std::uint64_t id, Code code, const std::string& text) {
            self->deny(id, Error(code, text));
          },
          nb::arg("id"), nb::arg("code"), nb::arg("text"), nb::call_guard<WithoutGil>(),
          "Answers a put or a call with an error.")
      .def("end_gets", through<MirrorQueueHandle>(&MirrorQueue::end_gets),
           nb::arg("died") = nb::none(), nb::call_guard<WithoutGil>(),
           "From now on local gets end with SHUT_DOWN when no item is left here; with "
           "`redeliver`, until the next \"died\". `died`: the number of \"died\" events that the "
           "home has received. Does nothing if there were more.")
      .def("close", through<MirrorQueueHandle>(&MirrorQueue::close), nb::call_guard<WithoutGil>(),
           "Closes the mirror: pending calls end with CLOSED, and the name is free.");
}

}  // namespace tensorbus::python
