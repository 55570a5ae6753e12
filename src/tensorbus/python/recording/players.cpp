// Players of recordings. tensorbus/_recording is the public interface.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <string>
#include <vector>

#include "tensorbus/python/bindings.hpp"
#include "tensorbus/python/inspect/counters.hpp"
#include "tensorbus/python/waiting.hpp"
#include "tensorbus/recording/player.hpp"

namespace tensorbus::python {
void bind_players(nb::module_& module) {
  nb::class_<recording::Player>(module, "Player", "Publishes a recording.")
      .def(
          "__init__",
          [](recording::Player* self, const recording::Recording& recording,
             const std::vector<std::string>& topics,
             const std::map<std::string, std::string>& remap, double rate, bool loop, bool paused,
             std::uint64_t begin, std::uint64_t end, const std::string& clock, int device,
             const PathBytes& domain) {
            const WithoutGil release;
            new (self) recording::Player(
                recording,
                {.topics = topics,
                 .remap = remap,
                 .rate = rate,
                 .loop = loop,
                 .paused = paused,
                 .begin_ns = begin,
                 .end_ns = end,
                 .clock = clock,
                 .device = device < 0 ? std::nullopt : std::optional(Device::cuda(device)),
                 .domain = domain.bytes});
          },
          nb::arg("recording"), nb::kw_only(), nb::arg("topics"), nb::arg("remap"), nb::arg("rate"),
          nb::arg("loop"), nb::arg("paused"), nb::arg("begin"), nb::arg("end"), nb::arg("clock"),
          nb::arg("device"), nb::arg("domain"),
          nb::sig("def __init__(self, recording: Recording, *, topics: "
                  "collections.abc.Sequence[str], remap: collections.abc.Mapping[str, str], rate: "
                  "float, loop: bool, paused: bool, begin: int, end: int, clock: str, "
                  "device: int, domain: str) "
                  "-> None"))
      .def("pause", &recording::Player::pause, nb::call_guard<WithoutGil>())
      .def("resume", &recording::Player::resume, nb::call_guard<WithoutGil>())
      .def("step", &recording::Player::step, nb::arg("count"), nb::call_guard<WithoutGil>())
      .def("set_rate", &recording::Player::set_rate, nb::arg("rate"), nb::call_guard<WithoutGil>())
      .def(
          "wait",
          [](recording::Player& self, Seconds timeout) {
            return wait_interruptibly(
                timeout, [&](const platform::StopCondition& stop) { return self.wait(stop); });
          },
          nb::arg("timeout").none(), nb::sig("def wait(self, timeout: float | None) -> Outcome"),
          "Waits until all messages were published, or playing has failed; then returns DONE.")
      .def(
          "wait_for_subscribers",
          [](recording::Player& self, Seconds timeout) {
            return wait_interruptibly(timeout, [&](const platform::StopCondition& stop) {
              return self.wait_for_subscribers(stop);
            });
          },
          nb::arg("timeout").none(),
          nb::sig("def wait_for_subscribers(self, timeout: float | None) -> Outcome"),
          "Waits until each topic has a subscriber; then returns DONE.")
      .def_prop_ro(
          "stats", [](const recording::Player& self) { return dict_of(self.stats()); },
          nb::sig("def stats(self) -> dict[str, Any]"))
      .def("close", &recording::Player::close, nb::call_guard<WithoutGil>());
}

}  // namespace tensorbus::python
