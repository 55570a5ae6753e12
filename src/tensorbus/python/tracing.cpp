// The tracer (docs/tracing.md).
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "tensorbus/bus/tracer.hpp"
#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {
namespace {

const char* name_of(bus::Tracer::State state) {
  switch (state) {
    case bus::Tracer::State::kAsked:
      return "asked";
    case bus::Tracer::State::kTraced:
      return "traced";
    case bus::Tracer::State::kRefused:
      return "refused";
    case bus::Tracer::State::kEnded:
      break;
  }
  return "ended";
}

nb::list sources(const bus::Tracer& self) {
  nb::list list;
  for (const bus::Tracer::Source& source : self.sources())
    list.append(nb::make_tuple(source.participant.hex(), source.pid, text_of(source.process),
                               name_of(source.state), text_of(source.why), source.overwritten,
                               source.incomplete));
  return list;
}

nb::dict topics(const bus::Tracer& self) {
  nb::dict dict;
  for (const auto& [publisher, topic] : self.topics()) dict[publisher.c_str()] = text_of(topic);
  return dict;
}

nb::bytes take_records(bus::Tracer& self, std::size_t source) {
  if (source >= self.sources().size()) throw nb::index_error("no source has this number");
  const std::vector<link::TraceRecord> records = self.take(source);
  return nb::bytes(records.data(), records.size() * sizeof records[0]);
}

}  // namespace

void bind_tracing(nb::module_& module) {
  nb::class_<bus::Tracer>(module, "Tracer",
                          "Traces the participants of a domain. No call waits for another process.")
      .def(
          "__init__",
          [](bus::Tracer* self, const PathBytes& domain, const std::vector<std::string>& topics) {
            new (self) bus::Tracer(domain.bytes, topics);
          },
          nb::arg("domain"), nb::arg("topics"))
      .def("poll", &bus::Tracer::poll, nb::call_guard<WithoutGil>(),
           "Asks new participants for a trace, takes their replies, and reads new records.")
      .def("sources", sources,
           nb::sig("def sources(self) -> list[tuple[str, int, str, str, str, int, int]]"),
           "Returns for each participant that was asked for a trace: its id, pid, program, state "
           "(asked, traced, refused, ended), the reason of a refusal, the number of records that "
           "were overwritten before they were read, and the number of incomplete records.")
      .def_prop_ro("topics", topics, nb::sig("def topics(self) -> dict[str, str]"),
                   "The topics of observed publishers, by the name of the publisher.")
      .def("take", take_records, nb::arg("source"),
           "Returns the records of a source since the last call.");
}

}  // namespace tensorbus::python
