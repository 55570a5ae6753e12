// Shares and their handles.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <set>
#include <string>
#include <vector>

#include "tensorbus/python/bindings.hpp"
#include "tensorbus/python/memory.hpp"
#include "tensorbus/python/outgoing.hpp"
#include "tensorbus/python/waiting.hpp"

namespace tensorbus::python {
namespace {

Memory empty_memory(const std::string& dtype, const std::vector<std::int64_t>& shape, bool shared,
                    const ParticipantHandle& participant, int device) {
  const Layout layout = layout_named(dtype, shape);
  return memory_of(run_without_gil(
      [&] { return bus::empty(layout, shared, participant, device_numbered(device)); }));
}

bus::Shared share_outgoing(Outgoing& outgoing, nb::bytes fields, std::uint32_t uses, Seconds ttl,
                           bool shared, const ParticipantHandle& participant) {
  const Message message = outgoing.take(fields);
  bus::Shared made = run_without_gil([&] {
    return bus::share(message, {.uses = uses, .ttl = to_timeout(ttl), .shared = shared},
                      participant);
  });
  outgoing.clear();
  if (ttl) made.outlive_object();
  return made;
}

Id id_of(const std::string& hex) {
  const auto id = Id::parse(hex);
  if (!id) throw Error(Code::kInvalidArgument, "id=" + hex + ": expected 32 hexadecimal digits");
  return *id;
}

bus::Handle share_outgoing_once(Outgoing& outgoing, nb::bytes fields, bool shared,
                                std::uint64_t carrier, const std::optional<std::string>& keeper,
                                const ParticipantHandle& participant) {
  const Message message = outgoing.take(fields);
  const auto kept_by = keeper ? std::optional(id_of(*keeper)) : std::nullopt;
  bus::Handle made = run_without_gil(
      [&] { return bus::share_once(message, shared, carrier, kept_by, participant); });
  outgoing.clear();
  return made;
}

nb::object attach_handle(const bus::Handle& handle, TensorAccess access, Seconds timeout,
                         const ParticipantHandle& participant) {
  platform::CopyOnWrite::look_for_handler();
  bus::Sample sample;
  const Outcome outcome = wait_interruptibly(timeout, [&](const platform::StopCondition& stop) {
    return attach(
        sample, handle,
        {.access = core_access(access), .timeout = stop.timeout(), .give_up = stop.give_up()},
        participant);
  });
  return sample_or_outcome(outcome, std::move(sample), access == TensorAccess::kRead);
}

nb::list sizes(const Dims& dims) {
  nb::list list;
  for (const std::int64_t size : dims) list.append(size);
  return list;
}

nb::list described(const bus::Handle& self) {
  nb::list all;
  for (const bus::Handle::Described& tensor : self.described)
    all.append(nb::make_tuple(name_of(tensor.layout.dtype), sizes(tensor.layout.shape),
                              sizes(tensor.layout.strides), tensor.offset,
                              static_cast<unsigned>(tensor.layout.flags)));
  return all;
}

nb::bytes bytes_of(const bus::Handle& self) {
  const auto bytes = self.bytes();
  return nb::bytes(bytes.data(), bytes.size());
}

std::vector<std::uint64_t> in_order(const std::set<std::uint64_t>& numbers) {
  return {numbers.begin(), numbers.end()};
}

}  // namespace

void bind_shares(nb::module_& module) {
  nb::class_<bus::Handle>(module, "Handle", "The name of a share.")
      .def_static(
          "from_bytes",
          [](nb::bytes bytes) {
            return bus::Handle::from_bytes(
                {static_cast<const std::byte*>(bytes.data()), bytes.size()});
          },
          nb::arg("bytes"))
      .def_static("parse", &bus::Handle::parse, nb::arg("text"))
      .def_prop_ro("owner", [](const bus::Handle& self) { return self.owner.hex(); })
      .def_ro("number", &bus::Handle::number)
      .def_ro("tensors", &bus::Handle::tensors)
      .def_prop_ro("described", described,
                   nb::sig("def described(self) -> "
                           "list[tuple[str, list[int], list[int], int, int]]"),
                   "For each of the first tensors: dtype, shape, strides in elements, offset, "
                   "flags.")
      .def(
          "kept_by",
          [](const bus::Handle& self, const std::string& keeper) {
            return self.kept_by(id_of(keeper));
          },
          nb::arg("keeper"),
          "Returns the handle of the same share, kept by the participant with this id.")
      .def("bytes", bytes_of)
      .def("text", &bus::Handle::text);
  nb::class_<bus::Shared>(module, "Shared",
                          "Keeps shared tensors: any process with the handle may attach to them.")
      .def_prop_ro("handle", [](const bus::Shared& self) { return self.handle(); })
      .def_prop_ro("open", &bus::Shared::open)
      .def("close", &bus::Shared::close, nb::call_guard<WithoutGil>());
  module.def("share", share_outgoing, nb::arg("outgoing"), nb::arg("fields"), nb::arg("uses"),
             nb::arg("ttl").none(), nb::arg("shared"), nb::arg("participant"),
             nb::sig("def share(outgoing: Outgoing, fields: bytes, uses: int, ttl: float | None, "
                     "shared: bool, participant: Participant) -> Shared"));
  module.def(
      "share_once", share_outgoing_once, nb::arg("outgoing"), nb::arg("fields"), nb::arg("shared"),
      nb::arg("carrier"), nb::arg("keeper").none(), nb::arg("participant"),
      nb::sig("def share_once(outgoing: Outgoing, fields: bytes, shared: bool, carrier: int, "
              "keeper: str | None, participant: Participant) -> Handle"),
      "Shares a message for one process: the share ends when that process has attached. `keeper` "
      "keeps it, too.");
  module.def("close_share", with_handle(bus::close_share), nb::arg("handle"),
             nb::arg("participant"), nb::call_guard<WithoutGil>());
  module.def("close_carried_by", with_handle(bus::close_carried_by), nb::arg("carrier"),
             nb::arg("participant"), nb::call_guard<WithoutGil>(),
             "Ends the shares of this process, and those it keeps, that were sent through "
             "`carrier`.");
  module.def(
      "carriers",
      [](double seconds, const ParticipantHandle& participant) {
        return in_order(bus::carriers(to_timeout(seconds), participant));
      },
      nb::arg("seconds"), nb::arg("participant"),
      "Returns the carriers of shares that have been open for at least `seconds`: shares of this "
      "process, and those it keeps.");
  module.def(
      "unkept",
      [](const ParticipantHandle& participant) { return in_order(bus::unkept(participant)); },
      nb::arg("participant"),
      "Returns the carriers of shares that end with this process because their keeper does not "
      "read.");
  module.def("attach", attach_handle, nb::arg("handle"), nb::arg("access"),
             nb::arg("timeout").none(), nb::arg("participant"),
             nb::sig("def attach(handle: Handle, access: Access, timeout: float | None, "
                     "participant: Participant) -> Sample | Outcome"));
  module.def(
      "is_shared",
      [](std::uintptr_t address, std::size_t bytes, const ParticipantHandle& participant) {
        return bus::is_shared(reinterpret_cast<const void*>(address), bytes, participant);
      },
      nb::arg("address"), nb::arg("bytes"), nb::arg("participant"),
      "Returns True if this memory belongs to the bus, so that other processes can be allowed to "
      "write to it.");
  module.def(
      "is_shared",
      [](const Memory& memory, const ParticipantHandle& participant) {
        const ByteSpan span = span_of(memory.layout);
        return bus::is_shared(memory.first + span.begin, span.bytes(), participant);
      },
      nb::arg("memory"), nb::arg("participant"));
  module.def(
      "empty", empty_memory, nb::arg("dtype"), nb::arg("shape"), nb::arg("shared"),
      nb::arg("participant"), nb::arg("device") = -1,
      nb::sig(
          "def empty(dtype: str, shape: collections.abc.Sequence[int], shared: bool, participant: "
          "Participant, device: int = -1) -> Memory"));
}

}  // namespace tensorbus::python
