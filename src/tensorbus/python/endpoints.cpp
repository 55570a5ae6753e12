// Participants, publishers and subscribers. Calls that may wait or copy run without the GIL.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensorbus/bus/participant/participant.hpp"
#include "tensorbus/bus/publish/outgoing_sample.hpp"
#include "tensorbus/link/trace/trace_parents.hpp"
#include "tensorbus/platform/faults/private_pages.hpp"
#include "tensorbus/python/bindings.hpp"
#include "tensorbus/python/codec/packer.hpp"
#include "tensorbus/python/inspect/counters.hpp"
#include "tensorbus/python/memory.hpp"
#include "tensorbus/python/numpy/arrays.hpp"
#include "tensorbus/python/outgoing.hpp"
#include "tensorbus/python/torch.hpp"
#include "tensorbus/python/waiting.hpp"

namespace tensorbus::python {
namespace {

using PublisherHandle = bus::ForkSafe<bus::Publisher>;

// Returns the type of a definition; "" means any message.
MessageType type_of(const std::string& definition) {
  return definition.empty() ? MessageType() : MessageType(definition);
}

nb::object result_of(const Published& published) {
  if (published.outcome != Outcome::kDone) return nb::cast(published.outcome);
  return nb::cast(published.subscribers);
}

// Sets the parents that the program has named, for one publish() of a traced publisher.
class ParentsOfContext {
 public:
  explicit ParentsOfContext(const bus::Publisher& publisher) : traced_(publisher.traced()) {
    if (!traced_) [[likely]]
      return;
    const nb::object named = nb::module_::import_("tensorbus._topics.parents").attr("named")();
    std::vector<link::SampleName> names;
    for (const nb::handle one : named) {
      const auto [name, sequence] = nb::cast<std::pair<std::string, std::uint64_t>>(one);
      if (const auto known = bus::parse_publisher_name(name))
        names.push_back({known->first, known->second, sequence});
    }
    link::TraceParents::name(names);
  }
  ~ParentsOfContext() {
    if (traced_) link::TraceParents::name({});
  }
  ParentsOfContext(const ParentsOfContext&) = delete;
  ParentsOfContext& operator=(const ParentsOfContext&) = delete;

 private:
  const bool traced_;
};

nb::object publish_message(bus::Publisher& self, const Message& message, Seconds timeout) {
  const ParentsOfContext parents(self);
  return result_of(wait_interruptibly(
      timeout, [&](const platform::StopCondition& stop) { return self.publish(message, stop); }));
}

nb::object publish_as(const PublisherHandle& self, Outgoing& outgoing, nb::bytes fields,
                      std::uint64_t fingerprint, std::uint64_t sequence, std::uint64_t timestamp_ns,
                      Seconds timeout) {
  Message message = outgoing.take(fields);
  message.fingerprint = fingerprint;
  nb::object result =
      result_of(wait_interruptibly(timeout, [&](const platform::StopCondition& stop) {
        return self->publish_as(message, {sequence, timestamp_ns}, stop);
      }));
  outgoing.clear();
  return result;
}

// Parses the name of a publisher; "" means any.
std::optional<bus::PublisherName> publisher_named(const std::string& name) {
  if (name.empty()) return std::nullopt;
  const auto known = bus::parse_publisher_name(name);
  if (!known) throw Error(Code::kInvalidArgument, "publisher: no publisher has the name " + name);
  return known;
}

nb::object publish(const PublisherHandle& self, Outgoing& outgoing, nb::bytes fields,
                   Seconds timeout) {
  nb::object result = publish_message(*self, outgoing.take(fields), timeout);
  outgoing.clear();
  return result;
}

// Returns the message of a single plain tensor, which needs no fields; nothing for other objects.
std::optional<Message> lone_tensor(nb::handle value) {
  auto view = plain_view_of(value);
  if (!view) return std::nullopt;
  Message message;
  message.tensors.push_back(std::move(*view));
  return message;
}

nb::object publish_any(const PublisherHandle& self, nb::handle data, Seconds timeout,
                       std::optional<std::uintptr_t> stream, const MessagePlan* plan) {
  if (plan == nullptr)
    if (const auto message = lone_tensor(data)) return publish_message(*self, *message, timeout);
  Outgoing made;
  Packer packer(made);
  const auto fields = plan != nullptr ? packer.pack_typed(data, *plan) : packer.pack_message(data);
  if (stream) packer.tensors().set_stream(*stream);
  return publish_message(*self, packer.tensors().take(std::span(fields)), timeout);
}

// Returns the outcome and the number of published rows; None if `rows` is not a plain array or
// tensor with at least one dimension.
nb::object publish_many(const PublisherHandle& self, nb::handle rows, Seconds timeout) {
  const auto view = plain_view_of(rows);
  if (!view || view->layout.shape.empty()) return nb::none();
  const ParentsOfContext parents(*self);
  const PublishedMany done = wait_interruptibly(timeout, [&](const platform::StopCondition& stop) {
    return self->publish_many(*view, stop);
  });
  return nb::make_tuple(done.outcome, done.count);
}

// Returns the shape in a tuple or list of plain ints; nothing for any other object.
std::optional<Dims> plain_shape(nb::handle value) {
  const bool is_list = PyList_CheckExact(value.ptr());
  if (!is_list && !PyTuple_Check(value.ptr())) return std::nullopt;
  const nb::ft_object_guard unchanged(value);
  const auto count = static_cast<std::size_t>(sequence_size(value.ptr()));
  if (count > kMaxDims) return std::nullopt;
  Dims dims(count);
  for (std::size_t i = 0; i < count; ++i) {
    PyObject* const size = sequence_item(value.ptr(), static_cast<Py_ssize_t>(i));  // borrowed
    if (!PyLong_CheckExact(size)) return std::nullopt;
    int overflow = 0;
    dims[i] = PyLong_AsLongLongAndOverflow(size, &overflow);
    if (dims[i] < 0) return std::nullopt;  // also if the size is too large: the result is then -1
  }
  return dims;
}

nb::object loan_plain(const PublisherHandle& self, nb::handle dtype, nb::handle shape) {
  const auto of_torch = dtype_of_torch(dtype);
  const auto known = of_torch ? of_torch : dtype_of_numpy(dtype);
  auto sizes = known ? plain_shape(shape) : std::nullopt;
  if (!sizes) return nb::none();
  const Layout layout = Layout::contiguous(*known, *std::move(sizes));
  Memory memory = memory_of(run_without_gil([&] { return self->loan(layout); }));
  if (!of_torch) return make_plain_array(std::move(memory));
  return can_be_plain_torch(memory) ? make_plain_torch(std::move(memory)) : nb::none();
}

Memory loan(const PublisherHandle& self, const std::string& dtype,
            const std::vector<std::int64_t>& shape, int device, Seconds timeout) {
  const Layout layout = layout_named(dtype, shape);
  const Device on = device_numbered(device);
  if (!timeout) return memory_of(run_without_gil([&] { return self->loan(layout, on); }));
  auto loan = wait_interruptibly(
      timeout, [&](const platform::StopCondition& stop) { return self->loan(layout, on, stop); });
  return memory_of(*std::move(loan));
}

// Returns a loan as a memoryview, which can be sliced.
nb::object loan_bytes(const PublisherHandle& self, std::int64_t bytes, Seconds timeout) {
  nb::object memory = nb::cast(loan(self, "uint8", {bytes}, -1, timeout));
  return checked(PyMemoryView_FromObject(memory.ptr()));
}

// The class Subscriber of Python.
struct SubscriberHandle : bus::ForkSafe<bus::Subscriber> {
  SubscriberHandle(const std::string& topic, const SubscriberOptions& options, bool no_writes,
                   const ParticipantHandle& participant,
                   const std::optional<bus::PublisherName>& only)
      : ForkSafe(std::in_place, topic, options, participant, only), strict(no_writes) {
    platform::CopyOnWrite::look_for_handler();
  }

  const bool strict;  // no library may write to received tensors
};

nb::object receive(SubscriberHandle& self, Seconds timeout) {
  bus::Sample sample;
  const Outcome outcome = wait_interruptibly(
      timeout, [&](const platform::StopCondition& stop) { return self->receive(sample, stop); });
  return sample_or_outcome(outcome, std::move(sample), self.strict);
}

nb::object try_receive(SubscriberHandle& self) {
  bus::Sample sample;
  const Outcome outcome = self->try_receive(sample);
  return sample_or_outcome(outcome, std::move(sample), self.strict);
}

// Limit for the samples of one receive_many(), because room for all of them is allocated first.
constexpr std::size_t kMaxAtOnce = 1024;
// Value of a subscriber's `device`: tensors stay on their device. -1 is main memory.
constexpr int kStays = -2;

nb::object receive_many(SubscriberHandle& self, std::size_t most, Seconds timeout) {
  std::vector<bus::Sample> samples(std::min(most, kMaxAtOnce));
  std::size_t count = 0;
  const Outcome outcome = wait_interruptibly(timeout, [&](const platform::StopCondition& stop) {
    return self->receive_many(samples, count, stop);
  });
  if (outcome != Outcome::kDone) return nb::cast(outcome);
  nb::list list;
  for (bus::Sample& sample : std::span(samples).first(count))
    list.append(nb::cast(ReceivedSample(std::move(sample), self.strict)));
  return list;
}

nb::object receive_into(SubscriberHandle& self, nb::handle array, Seconds timeout) {
  const auto view = writable_view_of(array);
  if (!view)
    throw Error(Code::kInvalidArgument,
                "receive_into: expected a writable NumPy array or PyTorch tensor in main memory");
  std::size_t count = 0;
  const Outcome outcome = wait_interruptibly(timeout, [&](const platform::StopCondition& stop) {
    return self->receive_into(const_cast<void*>(view->data), view->layout, count, stop);
  });
  return outcome == Outcome::kDone ? nb::cast(count) : nb::cast(outcome);
}

nb::dict use_of(const ArenaUse& use) {
  nb::dict dict = dict_of(use);
  dict["private_bytes"] = platform::CopyOnWrite::private_bytes();
  return dict;
}

void bind_participant(nb::module_& module) {
  nb::class_<ParticipantHandle>(module, "Participant", "This process in a domain.")
      .def_static(
          "shared",
          [](const PathBytes& domain, std::size_t budget_bytes) {
            const WithoutGil release;
            return ParticipantHandle{
                bus::shared_participant({.domain = domain.bytes, .budget_bytes = budget_bytes})};
          },
          nb::arg("domain") = "", nb::arg("budget_bytes") = 0)
      .def_prop_ro("id", [](const ParticipantHandle& self) { return self->id().hex(); })
      .def("__repr__",
           [](const ParticipantHandle& self) {
             return text_of("<tensorbus.Participant " + self->id().hex() + " of " +
                            self->domain_path() + ">");
           })
      .def_prop_ro("domain",
                   [](const ParticipantHandle& self) { return PathBytes{self->domain_path()}; })
      .def_prop_ro("domain_changes", through<ParticipantHandle>(&bus::Participant::domain_changes),
                   "A counter that grows when files of the domain may have been added or removed.")
      .def("domain_fileno", through<ParticipantHandle>(&bus::Participant::domain_descriptor),
           "Returns a descriptor to poll: readable when domain_changes may have grown since it was "
           "cleared.")
      .def("clear_domain_fileno",
           through<ParticipantHandle>(&bus::Participant::clear_domain_descriptor))
      .def("subscribers_fileno",
           through<ParticipantHandle>(&bus::Participant::subscribers_descriptor),
           "Returns a descriptor to poll: readable when publishers of this participant have gained "
           "or lost subscribers since take_changed_publishers().")
      .def("take_changed_publishers",
           through<ParticipantHandle>(&bus::Participant::take_changed_publishers),
           "Returns the numbers of publishers that have gained or lost subscribers since the last "
           "call.")
      .def_prop_ro(
          "arena", [](const ParticipantHandle& self) { return use_of(self->memory_use()); },
          nb::sig("def arena(self) -> dict[str, int]"));
}

void bind_publisher(nb::module_& module) {
  nb::class_<PublisherHandle>(module, "Publisher")
      .def(
          "__init__",
          [](PublisherHandle* self, const std::string& topic, const ParticipantHandle& participant,
             std::uint32_t depth, std::uint32_t history, bool reliable, Seconds lag_timeout,
             bool shared, bool isolated, const std::string& type, const std::string& node,
             const std::pair<std::string, std::string>& origin) {
            const WithoutGil release;
            new (self)
                PublisherHandle(std::in_place, topic,
                                PublisherOptions{.depth = depth,
                                                 .history = history,
                                                 .reliable = reliable,
                                                 .lag_timeout = to_timeout(lag_timeout),
                                                 .shared = shared,
                                                 .isolated = isolated,
                                                 .type = type_of(type),
                                                 .node = node},
                                participant, link::MirrorOrigin{origin.first, origin.second});
          },
          nb::arg("topic"), nb::arg("participant"), nb::kw_only(), nb::arg("depth"),
          nb::arg("history"), nb::arg("reliable"), nb::arg("lag_timeout").none(), nb::arg("shared"),
          nb::arg("isolated") = false, nb::arg("type") = "", nb::arg("node") = "",
          nb::arg("origin") = std::pair<std::string, std::string>())
      .def("loan", loan, nb::arg("dtype"), nb::arg("shape"), nb::arg("device") = -1,
           nb::arg("timeout") = nb::none(),
           nb::sig("def loan(self, dtype: str, shape: collections.abc.Sequence[int], device: int = "
                   "-1, timeout: float | None = None) -> Memory"))
      .def("loan_plain", loan_plain, nb::arg("dtype").none(), nb::arg("shape").none(),
           nb::sig("def loan_plain(self, dtype: object, shape: object) -> typing.Any"),
           "Returns a loan as a plain PyTorch tensor or NumPy array: `dtype` is a torch.dtype, a "
           "dtype of NumPy or a name. Returns None for any other dtype, if a plain tensor is not "
           "possible, or if the shape is not a tuple or list of ints.")
      .def("publish", publish, nb::arg("outgoing"), nb::arg("fields"), nb::arg("timeout").none(),
           nb::sig("def publish(self, outgoing: Outgoing, fields: bytes, "
                   "timeout: float | None) -> int | Outcome"),
           "Returns the number of subscribers that got the message, or the Outcome if it was not "
           "published.")
      .def("publish_any", publish_any, nb::arg("data").none(), nb::arg("timeout").none(),
           nb::arg("stream").none() = nb::none(), nb::arg("plan").none() = nb::none(),
           nb::sig("def publish_any(self, data: object, timeout: float | None, "
                   "stream: int | None = None, plan: MessagePlan | None = None) "
                   "-> int | Outcome"),
           "Like publish(), for any message. `stream`: the CUDA stream that writes all tensors on "
           "GPUs.")
      .def("publish_many", publish_many, nb::arg("rows").none(), nb::arg("timeout").none(),
           nb::sig("def publish_many(self, rows: object, timeout: float | None) "
                   "-> tuple[Outcome, int] | None"),
           "Publishes each row of a plain array or tensor as a message. Returns the outcome and "
           "the number of published rows; None for any other object.")
      .def("loan_bytes", loan_bytes, nb::arg("bytes"), nb::arg("timeout").none(),
           nb::sig("def loan_bytes(self, bytes: int, timeout: float | None) -> memoryview"),
           "Returns memory to fill. Outgoing.add_at() adds tensors in it.")
      .def("publish_as", publish_as, nb::arg("outgoing"), nb::arg("fields"), nb::arg("fingerprint"),
           nb::arg("sequence"), nb::arg("timestamp_ns"), nb::arg("timeout").none(),
           nb::sig("def publish_as(self, outgoing: Outgoing, fields: bytes, fingerprint: int, "
                   "sequence: int, timestamp_ns: int, timeout: float | None) -> int | Outcome"),
           "Like publish(), for a mirror: with the sequence number and the time of the original. "
           "The number must not be lower than the next one.")
      .def("restart", through<PublisherHandle>(&bus::Publisher::restart), nb::arg("sequence"),
           nb::call_guard<WithoutGil>(),
           "Drops the history, and continues with this sequence number. Does nothing and returns "
           "False if the publisher has subscribers or is closed.")
      .def("begin_at", through<PublisherHandle>(&bus::Publisher::begin_at), nb::arg("sequence"),
           nb::call_guard<WithoutGil>(),
           "For a mirror that has not begun: samples from this sequence number on count as missed.")
      .def("break_off", through<PublisherHandle>(&bus::Publisher::break_off),
           nb::call_guard<WithoutGil>(),
           "Closes the publisher as if its process had died: streams of subscribers continue with "
           "the next publisher.")
      .def_prop_ro("number", through<PublisherHandle>(&bus::Publisher::number))
      .def_prop_ro("traced", through<PublisherHandle>(&bus::Publisher::traced))
      .def_prop_ro("subscribers", through<PublisherHandle>(&bus::Publisher::subscribers))
      .def(
          "wait_for_subscribers",
          [](const PublisherHandle& self, std::uint32_t count, Seconds timeout) {
            return wait_interruptibly(timeout, [&](const platform::StopCondition& stop) {
              return self->wait_for_subscribers(count, stop);
            });
          },
          nb::arg("count"), nb::arg("timeout").none())
      .def("ready", through<PublisherHandle>(&bus::Publisher::ready), nb::call_guard<WithoutGil>())
      .def("fileno", through<PublisherHandle>(&bus::Publisher::event_descriptor))
      .def_prop_ro(
          "stats", [](const PublisherHandle& self) { return dict_of(self->stats()); },
          nb::sig("def stats(self) -> dict[str, int]"))
      .def("close", through<PublisherHandle>(&bus::Publisher::close), nb::call_guard<WithoutGil>());
}

void bind_subscriber(nb::module_& module) {
  nb::class_<SubscriberHandle>(module, "Subscriber")
      .def(
          "__init__",
          [](SubscriberHandle* self, const std::string& topic, const ParticipantHandle& participant,
             std::uint32_t depth, std::uint32_t max_held, bool reliable, bool end_of_stream,
             double spin, TensorAccess access, const std::string& type, bool pin, int device,
             const std::string& publisher, const std::string& node) {
            const WithoutGil release;
            new (self) SubscriberHandle(
                topic,
                {.depth = depth,
                 .max_held = max_held,
                 .reliable = reliable,
                 .end_of_stream = end_of_stream,
                 .spin = to_timeout(spin),
                 .access = core_access(access),
                 .type = type_of(type),
                 .pin = pin,
                 .device = device == kStays ? std::nullopt : std::optional(device_numbered(device)),
                 .node = node},
                // A GPU reads pinned memory in place: its pages cannot be replaced.
                access == TensorAccess::kRead || pin, participant, publisher_named(publisher));
          },
          nb::arg("topic"), nb::arg("participant"), nb::kw_only(), nb::arg("depth"),
          nb::arg("max_held"), nb::arg("reliable"), nb::arg("end_of_stream"), nb::arg("spin"),
          nb::arg("access"), nb::arg("type") = "", nb::arg("pin") = false,
          nb::arg("device") = kStays, nb::arg("publisher") = "", nb::arg("node") = "")
      .def("receive", receive, nb::arg("timeout").none(),
           nb::sig("def receive(self, timeout: float | None) -> Sample | Outcome"),
           "Returns a Sample, or the Outcome if there is none.")
      .def("try_receive", try_receive, nb::sig("def try_receive(self) -> Sample | Outcome"))
      .def("receive_many", receive_many, nb::arg("most"), nb::arg("timeout").none(),
           nb::sig("def receive_many(self, most: int, timeout: float | None) -> "
                   "list[Sample] | Outcome"),
           "Returns at least one Sample, or the Outcome if there is none.")
      .def("receive_into", receive_into, nb::arg("array").none(), nb::arg("timeout").none(),
           nb::sig("def receive_into(self, array: object, timeout: float | None) "
                   "-> int | Outcome"),
           "Returns the number of rows written, at least one; or the Outcome.")
      .def("ready", through<SubscriberHandle>(&bus::Subscriber::ready))
      .def("fileno", through<SubscriberHandle>(&bus::Subscriber::event_descriptor))
      .def(
          "wait_for_publishers",
          [](SubscriberHandle& self, std::uint32_t count, Seconds timeout) {
            return wait_interruptibly(timeout, [&](const platform::StopCondition& stop) {
              return self->wait_for_publishers(count, stop);
            });
          },
          nb::arg("count"), nb::arg("timeout").none())
      .def_prop_ro(
          "stats", [](const SubscriberHandle& self) { return dict_of(self->stats()); },
          nb::sig("def stats(self) -> dict[str, Any]"))
      .def("watch_publisher_ends",
           through<SubscriberHandle>(&bus::Subscriber::watch_publisher_ends),
           nb::call_guard<WithoutGil>(),
           "From now on receive() and its like return INTERRUPTED when take_publisher_ends() has "
           "results.")
      .def(
          "take_publisher_ends",
          [](SubscriberHandle& self) {
            nb::list list;
            for (const bus::PublisherEnd& end :
                 run_without_gil([&] { return self->take_publisher_ends(); }))
              list.append(nb::make_tuple(bus::to_string(end.publisher), end.pid, end.closed));
            return list;
          },
          nb::sig("def take_publisher_ends(self) -> list[tuple[str, int, bool]]"),
          "Returns the publishers that have ended since the last call, after their last samples "
          "were received: name, pid, and whether it was closed in an orderly way.")
      .def("close", through<SubscriberHandle>(&bus::Subscriber::close),
           nb::call_guard<WithoutGil>());
}

}  // namespace

void bind_endpoints(nb::module_& module) {
  nb::enum_<Outcome>(module, "Outcome", "The outcome of a call that may wait.")
      .value("DONE", Outcome::kDone)
      .value("TIMED_OUT", Outcome::kTimedOut)
      .value("INTERRUPTED", Outcome::kInterrupted)
      .value("CLOSED", Outcome::kClosed)
      .value("HOLD_LIMIT", Outcome::kHoldLimit)
      .value("SHUT_DOWN", Outcome::kShutDown);
  nb::enum_<TensorAccess>(module, "Access", "How a subscriber may access received tensors.")
      .value("COPY_ON_WRITE", TensorAccess::kCopyOnWrite)
      .value("READ", TensorAccess::kRead)
      .value("PRIVATE", TensorAccess::kPrivate)
      .value("SHARED", TensorAccess::kShared);
  bind_participant(module);
  bind_publisher(module);
  bind_subscriber(module);
}

}  // namespace tensorbus::python
