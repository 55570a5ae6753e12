// The inspection of a domain's participants, as the dataclasses of tensorbus._inspection.report.
#include "tensorbus/bus/inspection.hpp"

#include <nanobind/stl/string.h>

#include <concepts>
#include <string>
#include <tensorbus/internal/fields.hpp>
#include <type_traits>
#include <vector>

#include "tensorbus/python/bindings.hpp"
#include "tensorbus/python/waiting.hpp"

namespace tensorbus::python {
namespace {

template <typename Report>
constexpr const char* kClass = nullptr;
template <>
constexpr const char* kClass<PeerName> = "PeerName";
template <>
constexpr const char* kClass<LinkReport> = "LinkReport";
template <>
constexpr const char* kClass<PublisherStats> = "PublisherStats";
template <>
constexpr const char* kClass<PublisherReport> = "PublisherReport";
template <>
constexpr const char* kClass<SubscriberStats> = "SubscriberStats";
template <>
constexpr const char* kClass<SubscriberReport> = "SubscriberReport";
template <>
constexpr const char* kClass<QueueStats> = "QueueStats";
template <>
constexpr const char* kClass<QueueClientReport> = "QueueClientReport";
template <>
constexpr const char* kClass<QueueReport> = "QueueReport";
template <>
constexpr const char* kClass<ShareReport> = "ShareReport";
template <>
constexpr const char* kClass<LentReport> = "LentReport";
template <>
constexpr const char* kClass<BorrowedReport> = "BorrowedReport";
template <>
constexpr const char* kClass<DeviceReport> = "DeviceReport";
template <>
constexpr const char* kClass<MemoryReport> = "MemoryReport";
template <>
constexpr const char* kClass<ParticipantReport> = "ParticipantReport";
template <>
constexpr const char* kClass<Inspection> = "Inspection";

const char* name_of(Access access) {
  switch (access) {
    case Access::kRead:
      break;
    case Access::kPrivate:
      return "private";
    case Access::kShared:
      return "shared";
  }
  return "read";
}

// Makes instances of the dataclasses of a module. They are frozen, so the fields are stored in
// __dict__, which is also faster than __init__.
class Converter {
 public:
  explicit Converter(const nb::module_& classes) : classes_(classes) {}

  nb::object object_of(bool value) const { return nb::bool_(value); }
  nb::object object_of(std::unsigned_integral auto value) const { return nb::int_(value); }
  nb::object object_of(std::chrono::nanoseconds value) const { return nb::int_(value.count()); }
  nb::object object_of(Access access) const { return nb::str(name_of(access)); }
  nb::object object_of(const std::string& text) const { return text_of(text); }
  nb::object object_of(const Id& id) const { return nb::str(id == Id{} ? "" : id.hex().c_str()); }
  template <typename Part>
  nb::object object_of(const std::vector<Part>& parts) const {
    nb::list list;
    for (const Part& part : parts) list.append(object_of(part));
    return nb::tuple(list);
  }
  template <tensorbus::internal::HasList Report>
  nb::object object_of(const Report& report) const {
    nb::object made = make(kClass<Report>);
    nb::dict fields = made.attr("__dict__");
    const auto put = [&](const char* name, const auto& field) { fields[name] = object_of(field); };
    tensorbus::internal::list_fields(put, report);
    if constexpr (std::same_as<Report, ParticipantReport>)
      if (!report.error.empty()) fields["memory"] = nb::none();
    return made;
  }

 private:
  nb::object make(const char* name) const {
    const nb::object type = classes_.attr(name);
    return type.attr("__new__")(type);
  }

  const nb::module_& classes_;
};

}  // namespace

void bind_inspection(nb::module_& module) {
  module.def(
      "inspect",
      [](const PathBytes& domain, double timeout) {
        const Inspection found = wait_interruptibly(
            timeout,
            [&](const platform::StopCondition& stop) { return bus::inspect(domain.bytes, stop); });
        const nb::module_ classes = nb::module_::import_("tensorbus._inspection.report");
        return Converter(classes).object_of(found);
      },
      nb::arg("domain"), nb::arg("timeout"),
      nb::sig("def inspect(domain: str, timeout: float) -> typing.Any"),
      "Returns an Inspection of tensorbus._inspection.report.");
}

}  // namespace tensorbus::python
