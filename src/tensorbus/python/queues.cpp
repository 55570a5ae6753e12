// Queues. Calls that may wait run without the GIL and check for signals.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tensorbus/link/ring/put_ring.hpp"
#include "tensorbus/link/wire/queue_messages.hpp"
#include "tensorbus/platform/faults/private_pages.hpp"
#include "tensorbus/python/bindings.hpp"
#include "tensorbus/python/codec/plain_items.hpp"
#include "tensorbus/python/inspect/counters.hpp"
#include "tensorbus/python/outgoing.hpp"
#include "tensorbus/python/waiting.hpp"

namespace tensorbus::python {
namespace {

// The classes Queue and Pending of Python.
struct QueueHandle : bus::ForkSafe<bus::Queue> {
  explicit QueueHandle(bus::Queue&& queue) : ForkSafe(std::in_place, std::move(queue)) {
    platform::CopyOnWrite::look_for_handler();
  }

  bool strict = false;  // no library may write to the items' tensors
};
struct SamplePending : bus::Queue::Pending {
  explicit SamplePending(bus::Queue::Pending&& pending, bool no_writes = false)
      : Pending(std::move(pending)), strict(no_writes) {}

  bool strict;
};

QueueHandle open_queue(const std::string& address_or_name, Seconds timeout,
                       const ParticipantHandle& participant, const std::string& ended) {
  return QueueHandle(wait_interruptibly(timeout, [&](const platform::StopCondition& stop) {
    return bus::Queue::open(address_or_name, stop, participant, ended);
  }));
}

Outcome put(QueueHandle& self, Outgoing& outgoing, const nb::bytes& fields, Seconds timeout) {
  const Message message = outgoing.take(fields);
  const Outcome outcome = wait_interruptibly(
      timeout, [&](const platform::StopCondition& stop) { return self->put(message, stop); });
  outgoing.clear();
  return outcome;
}

// Returns false for items with tensors.
bool put_now(QueueHandle& self, Outgoing& outgoing, const nb::bytes& fields) {
  if (outgoing.size() != 0) return false;
  const Message message = outgoing.take(fields);
  return run_without_gil([&] { return self->put_now(message); });
}

nb::object get(QueueHandle& self, Seconds timeout) {
  bus::Sample sample;
  const Outcome outcome = wait_interruptibly(
      timeout, [&](const platform::StopCondition& stop) { return self->get(sample, stop); });
  return sample_or_outcome(outcome, std::move(sample), self.strict);
}

nb::object get_while(QueueHandle& self, const SamplePending& unanswered, Seconds timeout) {
  bus::Sample sample;
  const Outcome outcome = wait_interruptibly(timeout, [&](const platform::StopCondition& stop) {
    return self->get_while(sample, unanswered, stop);
  });
  return sample_or_outcome(outcome, std::move(sample), self.strict);
}

// Puts a plain value. Returns True, or the Outcome if it was not put; None for any other value.
nb::object put_plain(QueueHandle& self, nb::handle item, Seconds timeout) {
  if (!is_plain(item)) return nb::none();
  std::vector<std::byte> fields;
  fields.reserve(link::PutSlot::kMaxBytes);
  append_plain(item, fields);
  const Outcome outcome = wait_interruptibly(timeout, [&](const platform::StopCondition& stop) {
    return self->put({.tensors = {}, .fields = fields}, stop);
  });
  return outcome == Outcome::kDone ? nb::cast(true) : nb::cast(outcome);
}

nb::object plain_value_of(const bus::Sample& sample) {
  return sample.tensors().empty() ? load_plain(sample.field_bytes()) : nb::object();
}

// Returns true for an exception that a signal handler may have raised, like KeyboardInterrupt. The
// item is then not the cause, and the caller still gets it.
bool is_interruption(const nb::python_error& error) { return !error.matches(PyExc_Exception); }

// Also returns nothing for an item that cannot be unpickled: reading the item raises the error
// again.
nb::object value_or_nothing(const bus::Sample& sample) {
  try {
    return plain_value_of(sample);
  } catch (const nb::python_error& error) {
    if (is_interruption(error)) throw;
    return {};
  }
}

// Returns a tuple with a plain value, the Sample of any other item, or the Outcome. If unpickling
// was interrupted: the Sample and the exception.
nb::object get_item(QueueHandle& self, Seconds timeout) {
  bus::Sample sample;
  const Outcome outcome = wait_interruptibly(
      timeout, [&](const platform::StopCondition& stop) { return self->get(sample, stop); });
  try {
    if (outcome == Outcome::kDone)
      if (const nb::object value = value_or_nothing(sample)) return nb::make_tuple(value);
  } catch (const nb::python_error& error) {
    if (!is_interruption(error)) throw;
    return nb::make_tuple(ReceivedSample(std::move(sample), self.strict), error.value());
  }
  return sample_or_outcome(outcome, std::move(sample), self.strict);
}

// Puts messages without tensors. `fields` keeps their bytes.
std::pair<std::size_t, Outcome> put_many(QueueHandle& self, const nb::list& fields,
                                         Seconds timeout) {
  std::vector<Message> messages;
  messages.reserve(fields.size());
  for (nb::handle one : fields) {
    const auto bytes = nb::cast<nb::bytes>(one);
    const auto* const first = static_cast<const std::byte*>(bytes.data());
    messages.push_back({.tensors = {}, .fields = {first, bytes.size()}});
  }
  std::size_t count = 0;
  const Outcome outcome = wait_interruptibly(timeout, [&](const platform::StopCondition& stop) {
    return self->put_many(messages, count, stop);
  });
  return {count, outcome};
}

// Waits for the first item, and takes further items that are already in the queue. After that
// nothing throws, so that no item is lost. Returns the values of plain items up to the first other
// item, the Samples of that item and all later items, and the exception if unpickling was
// interrupted.
nb::object get_many(QueueHandle& self, std::size_t max_count, Seconds timeout) {
  std::vector<bus::Sample> items;
  const Outcome outcome = wait_interruptibly(timeout, [&](const platform::StopCondition& stop) {
    items.reserve(std::min<std::size_t>(max_count, 64));
    return self->get_many(items, max_count, stop);
  });
  if (outcome != Outcome::kDone) return nb::cast(outcome);
  nb::list values;
  nb::object raised = nb::none();
  try {
    for (const bus::Sample& item : items) {
      const nb::object value = value_or_nothing(item);
      if (!value) break;
      values.append(value);
    }
  } catch (const nb::python_error& error) {
    raised = nb::borrow(error.value());
  }
  nb::list rest;
  for (bus::Sample& item : std::span(items).subspan(nb::len(values)))
    rest.append(nb::cast(ReceivedSample(std::move(item), self.strict)));
  return nb::make_tuple(values, rest, raised);
}

SamplePending start_put(QueueHandle& self, Outgoing& outgoing, const nb::bytes& fields,
                        bool waits) {
  const Message message = outgoing.take(fields);
  bus::Queue::Pending started = run_without_gil([&] { return self->start_put(message, waits); });
  outgoing.clear();
  return SamplePending(std::move(started));
}

nb::object take(SamplePending& self) {
  bus::Sample sample;
  // The call may initialise CUDA.
  const Outcome outcome = run_without_gil([&] { return self.take(sample); });
  const bool is_item = outcome == Outcome::kDone && self.is_get();
  return is_item ? nb::cast(ReceivedSample(std::move(sample), self.strict)) : nb::cast(outcome);
}

link::QueueVerb verb_named(const std::string& name) {
  using enum link::QueueVerb;
  constexpr std::pair<std::string_view, link::QueueVerb> kVerbs[] = {
      {"state", kState}, {"join", kJoin},     {"shutdown", kShutDown},  {"drain", kDrain},
      {"close", kClose}, {"done", kTaskDone}, {"give_back", kGiveBack},
  };
  for (const auto& [known, verb] : kVerbs)
    if (known == name) return verb;
  throw Error(Code::kInvalidArgument, "a queue has no call \"" + name + "\"");
}

void call(QueueHandle& self, link::QueueVerb verb, std::uint64_t number) {
  wait_interruptibly(std::nullopt, [&](const platform::StopCondition& stop) {
    self->call(verb, number, stop.give_up());
    return Outcome::kDone;
  });
}

nb::dict stats_of(const QueueHandle& self) {
  const QueueStats stats = wait_interruptibly(
      std::nullopt,
      [&](const platform::StopCondition& stop) { return self->stats(stop.give_up()); });
  return dict_of(stats);
}

}  // namespace

void bind_queues(nb::module_& module) {
  nb::class_<SamplePending>(module, "Pending", "A pending request to a queue.")
      .def("fileno", &bus::Queue::Pending::descriptor)
      .def("cancel", &bus::Queue::Pending::cancel, nb::call_guard<WithoutGil>(),
           "Cancels the request. An item that has arrived returns to the queue.")
      .def("take", take, nb::sig("def take(self) -> Sample | Outcome"),
           "Returns the result: the Sample of a get, or the Outcome. TIMED_OUT without `answered`: "
           "there is no result yet, and the descriptor will be readable again.")
      .def(
          "wait",
          [](SamplePending& self, double timeout, SamplePending* other) {
            return wait_interruptibly(timeout, [&](const platform::StopCondition& stop) {
              return self.wait(stop, other);
            });
          },
          nb::arg("timeout"), nb::arg("other") = nb::none(),
          "Waits until take() of this request, or of `other`, may succeed. This thread serves the "
          "bus meanwhile. Returns False if it cannot do so now: poll fileno() instead.")
      .def_prop_ro("answered", &bus::Queue::Pending::answered,
                   "True if a put or a call has its reply, or if take() has returned the reply to "
                   "a get.")
      .def("request_cancel", &bus::Queue::Pending::request_cancel, nb::call_guard<WithoutGil>(),
           "Asks the queue's server to cancel a put or a call; take() still returns its result.")
      .def_prop_ro("values", &bus::Queue::Pending::values,
                   "The four numbers in the reply to a call, after take().")
      .def("accept", &bus::Queue::Pending::accept, nb::call_guard<WithoutGil>(),
           "For a get with `hold`: accepts the item that take() has read. TIMED_OUT: not yet, and "
           "the descriptor will be readable again.")
      .def("spoil", &bus::Queue::Pending::spoil, nb::call_guard<WithoutGil>(),
           "For a get with `hold`: refuses an item that no process can read. The item counts as "
           "lost.")
      .def_prop_ro("number", &bus::Queue::Pending::number,
                   "The number of the item, for done() and give_back(); 0 without `redeliver`.");
  nb::class_<QueueHandle>(module, "Queue", "A queue: carries items between any processes.")
      .def(
          "__init__",
          [](QueueHandle* self, std::uint32_t maxsize, bool redeliver, bool shared,
             const std::string& name, std::uint64_t max_bytes, const ParticipantHandle& participant,
             const std::pair<std::string, std::string>& origin) {
            const WithoutGil release;
            new (self) QueueHandle(bus::Queue({.maxsize = maxsize,
                                               .redeliver = redeliver,
                                               .shared = shared,
                                               .name = name,
                                               .max_bytes = max_bytes},
                                              participant, {origin.first, origin.second}));
          },
          nb::kw_only(), nb::arg("maxsize"), nb::arg("redeliver"), nb::arg("shared"),
          nb::arg("name"), nb::arg("max_bytes"), nb::arg("participant"),
          nb::arg("origin") = std::pair<std::string, std::string>())
      .def_static("open", open_queue, nb::arg("address_or_name"), nb::arg("timeout").none(),
                  nb::arg("participant"), nb::arg("ended") = "",
                  nb::sig("def open(address_or_name: str, timeout: float | None, participant: "
                          "Participant, ended: str = '') -> Queue"),
                  "`ended`: with a name, the address of an earlier queue that is not opened again.")
      .def_static(
          "at",
          [](const std::string& address, const ParticipantHandle& participant,
             std::uint32_t maxsize, bool redeliver, bool shared, std::uint64_t max_bytes) {
            return QueueHandle(bus::Queue::at(address,
                                              {.maxsize = maxsize,
                                               .redeliver = redeliver,
                                               .shared = shared,
                                               .max_bytes = max_bytes},
                                              participant));
          },
          nb::arg("address"), nb::arg("participant"), nb::arg("maxsize") = 0,
          nb::arg("redeliver") = false, nb::arg("shared") = false, nb::arg("max_bytes") = 0,
          "Returns the queue with this address and these options. Sends no request to its "
          "process, which may be stopped or gone.")
      .def_static("addresses_of", with_handle(bus::Queue::addresses_of), nb::arg("name"),
                  nb::arg("participant"), nb::call_guard<WithoutGil>(),
                  "Returns the addresses of the queues with this name, for open(). Some queues may "
                  "be gone.")
      .def_prop_ro("address", [](const QueueHandle& self) { return self->address(); })
      .def_prop_ro("maxsize", [](const QueueHandle& self) { return self->options().maxsize; })
      .def_prop_ro("max_bytes", [](const QueueHandle& self) { return self->options().max_bytes; })
      .def_prop_ro("redeliver", [](const QueueHandle& self) { return self->options().redeliver; })
      .def_prop_ro("made_here", [](const QueueHandle& self) { return self->made_here(); })
      .def_prop_ro("shared", [](const QueueHandle& self) { return self->options().shared; })
      .def(
          "receive_with",
          [](QueueHandle& self, TensorAccess access) {
            self->receive_with(core_access(access));
            self.strict = access == TensorAccess::kRead;
          },
          nb::arg("access"),
          "Sets the access for items, if it differs from that of the queue. Call it before the "
          "first get.")
      .def(
          "pin_later",
          [](QueueHandle& self) {
            self->pin_later();
            self.strict = true;  // a GPU reads pinned memory in place: its pages cannot be replaced
          },
          "Pins the memory of later items for GPUs. The next get raises Unsupported if that is not "
          "possible. Call it after receive_with().")
      .def_static(
          "require_pinning",
          [](TensorAccess access) { bus::Queue::require_pinning(core_access(access)); },
          nb::arg("access"), nb::call_guard<WithoutGil>(),
          "Raises Unsupported if this process cannot pin memory for GPUs, and InvalidArgument if "
          "memory with this access is never pinned.")
      .def("put", put, nb::arg("outgoing"), nb::arg("fields"), nb::arg("timeout").none(),
           nb::sig("def put(self, outgoing: Outgoing, fields: bytes, timeout: float | None) -> "
                   "Outcome"))
      .def("get", get, nb::arg("timeout").none(),
           nb::sig("def get(self, timeout: float | None) -> Sample | Outcome"))
      .def("put_now", put_now, nb::arg("outgoing"), nb::arg("fields"),
           nb::sig("def put_now(self, outgoing: Outgoing, fields: bytes) -> bool"),
           "Puts the message if that is possible without waiting. Otherwise returns False, and "
           "`outgoing` keeps it.")
      .def("get_while", get_while, nb::arg("unanswered"), nb::arg("timeout").none(),
           nb::sig("def get_while(self, unanswered: Pending, timeout: float | None) -> Sample | "
                   "Outcome"),
           "Like get(), but ends with CLOSED when `unanswered` has its reply.")
      .def("put_plain", put_plain, nb::arg("item").none(), nb::arg("timeout").none(),
           nb::sig("def put_plain(self, item: object, timeout: float | None) -> "
                   "typing.Literal[True] | Outcome | None"),
           "Puts a plain value. Returns True, or the Outcome if it was not put; None for any other "
           "value.")
      .def("get_item", get_item, nb::arg("timeout").none(),
           nb::sig("def get_item(self, timeout: float | None) -> tuple[typing.Any] | Sample | "
                   "tuple[Sample, BaseException] | Outcome"),
           "Returns a tuple with the value of a plain item, the Sample of any other item, or the "
           "Outcome. If a signal handler raised during unpickling: a tuple of the Sample and the "
           "exception.")
      .def("put_many", put_many, nb::arg("fields"), nb::arg("timeout").none(),
           nb::sig("def put_many(self, fields: list[bytes], timeout: float | None) -> tuple[int, "
                   "Outcome]"),
           "Puts messages without tensors, in order. Returns the number of messages put, and DONE "
           "or the Outcome of the first message that was not put.")
      .def("get_many", get_many, nb::arg("max_count"), nb::arg("timeout").none(),
           nb::sig("def get_many(self, max_count: int, timeout: float | None) -> "
                   "tuple[list[typing.Any], list[Sample], BaseException | None] | Outcome"),
           "Returns the values of plain items up to the first other item, the Samples of that "
           "item and all later ones, and the exception if a signal handler raised meanwhile; or "
           "the Outcome.")
      .def("start_put", start_put, nb::arg("outgoing"), nb::arg("fields"), nb::arg("waits") = true,
           nb::sig("def start_put(self, outgoing: Outgoing, fields: bytes, waits: bool = True) -> "
                   "Pending"))
      .def(
          "start_get",
          [](QueueHandle& self, bool hold, bool waits) {
            return SamplePending(self->start_get(hold, waits), self.strict);
          },
          nb::arg("hold") = false, nb::arg("waits") = true, nb::call_guard<WithoutGil>(),
          "With `hold`, take() reads the offered item, and accept() or cancel() must follow.")
      .def(
          "start_call",
          [](QueueHandle& self, const std::string& verb, std::uint64_t number) {
            return SamplePending(self->start_call(verb_named(verb), number));
          },
          nb::arg("verb"), nb::arg("number") = 0, nb::call_guard<WithoutGil>(),
          "Starts a call: state, join, shutdown, drain, close, done or give_back. \"drain\" with "
          "the "
          "number 1 also waits until the queue has been shut down.")
      .def(
          "done",
          [](QueueHandle& self, std::uint64_t number) {
            call(self, link::QueueVerb::kTaskDone, number);
          },
          nb::arg("number"),
          "Like task_done(), for the item with this number, which was held and accepted. Without "
          "`redeliver`, for `number` items (0: one).")
      .def(
          "give_back",
          [](QueueHandle& self, std::uint64_t number) {
            call(self, link::QueueVerb::kGiveBack, number);
          },
          nb::arg("number"),
          "Gives up items in hand as if this process had died: with `redeliver` the item with "
          "this number returns to the queue; otherwise `number` items (0: one) count as lost.")
      .def(
          "start_join", [](QueueHandle& self) { return SamplePending(self->start_join()); },
          nb::call_guard<WithoutGil>())
      .def("task_done",
           [](QueueHandle& self) {
             wait_interruptibly(std::nullopt, [&](const platform::StopCondition& stop) {
               self->task_done(stop.give_up());
               return Outcome::kDone;
             });
           })
      .def(
          "join",
          [](QueueHandle& self, Seconds timeout) {
            return wait_interruptibly(
                timeout, [&](const platform::StopCondition& stop) { return self->join(stop); });
          },
          nb::arg("timeout").none())
      .def(
          "shutdown",
          [](QueueHandle& self, bool immediate) {
            const bus::Queue::Remaining left =
                wait_interruptibly(std::nullopt, [&](const platform::StopCondition& stop) {
                  return self->shutdown(immediate, stop.give_up());
                });
            return std::tuple(left.items, left.others, left.asked_here);
          },
          nb::arg("immediate"),
          "Returns the number of waiting items, the number of other processes that have requested "
          "items, and whether this process has.")
      .def(
          "drain",
          [](QueueHandle& self, Seconds timeout) {
            return wait_interruptibly(
                timeout, [&](const platform::StopCondition& stop) { return self->drain(stop); });
          },
          nb::arg("timeout").none())
      .def_prop_ro("stats", stats_of, nb::sig("def stats(self) -> dict[str, int]"))
      .def("close", [](QueueHandle& self) {
        wait_interruptibly(std::nullopt, [&](const platform::StopCondition& stop) {
          self->close(stop.give_up());
          return Outcome::kDone;
        });
      });
}

}  // namespace tensorbus::python
