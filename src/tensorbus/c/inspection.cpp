#include "tensorbus/bus/inspection.hpp"

#include <tensorbus/c/inspection.h>

#include <algorithm>
#include <concepts>
#include <memory>
#include <string>
#include <tensorbus/values/inspected.hpp>
#include <utility>
#include <vector>

#include "tensorbus/c/guard.hpp"
#include "tensorbus/c/objects.hpp"
#include "tensorbus/c/to_c.hpp"

using namespace tensorbus;
using namespace tensorbus::c;
using tensorbus::internal::CList;
using tensorbus::internal::HasList;
using tensorbus::internal::list_fields;

namespace {

// An inspection in C structs, and all memory that they point to.
class OwnedInspection final : public tb_inspection {
 public:
  explicit OwnedInspection(Inspection found) : tb_inspection{}, found_(std::move(found)) {
    fill(found_, static_cast<tb_inspection&>(*this));
  }

  // Called by list_fields().
  void operator()(const char*, const auto&) const noexcept {}
  void operator()(const char*, const auto& field, auto&& c_field) { fill(field, c_field); }

 private:
  template <typename Struct>
  void fill(const HasList auto& report, Struct& made) {
    if constexpr (requires { made.struct_size; }) made.struct_size = sizeof(Struct);
    list_fields(*this, report, made);
    complete(report, made);
  }
  template <typename Struct>
  void fill(const HasList auto& report, const Struct*& made) {
    Struct filled{};
    fill(report, filled);
    made = kept(std::move(filled));
  }
  template <typename Report, typename Struct>
  void fill(const std::vector<Report>& reports, CList<const Struct* const*, std::size_t> list) {
    std::vector<Struct> structs(reports.size());
    std::vector<const Struct*> pointers;
    for (std::size_t i = 0; i < reports.size(); ++i) {
      fill(reports[i], structs[i]);
      pointers.push_back(&structs[i]);
    }
    (void)kept(std::move(structs));  // its elements stay where they are
    list.count = reports.size();
    list.items = kept(std::move(pointers))->data();
  }
  void fill(const std::vector<std::string>& texts, CList<const char* const*, std::size_t> list) {
    std::vector<const char*> pointers;
    for (const std::string& text : texts) pointers.push_back(text.c_str());
    list.count = texts.size();
    list.items = kept(std::move(pointers))->data();
  }
  void fill(const std::string& text, const char*& c_text) { c_text = text.c_str(); }
  void fill(const Id& id, std::uint8_t (&bytes)[16]) { std::ranges::copy(id.bytes, bytes); }
  void fill(Access access, std::int32_t& number) {
    number = static_cast<std::int32_t>(access);  // the same numbers in C
  }
  void fill(const auto& number, std::integral auto& c_number) {
    NumbersToC{}(nullptr, number, c_number);
  }

  void complete(const auto&, auto&) const noexcept {}
  void complete(const SubscriberReport& report, tb_subscriber_report& made) const noexcept {
    made.last_refusal = report.stats.last_refusal.c_str();
  }
  void complete(const ParticipantReport& report, tb_participant_report& made) const noexcept {
    if (!report.error.empty()) made.memory = nullptr;
  }

  template <typename T>
  const T* kept(T made) {
    auto holder = std::make_shared<const T>(std::move(made));
    const T* const pointer = holder.get();
    kept_.push_back(std::move(holder));
    return pointer;
  }

  const Inspection found_;
  std::vector<std::shared_ptr<const void>> kept_;
};

}  // namespace

tb_status tb_inspect(const char* domain, int64_t timeout_ns, tb_inspection** inspection) {
  return done([&] {
    hand_out(inspection, "inspection", [&] {
      const auto stop = platform::StopCondition::ignoring_signals(timeout_of(timeout_ns));
      return new OwnedInspection(bus::inspect(domain == nullptr ? "" : domain, stop));
    });
  });
}

void tb_inspection_destroy(tb_inspection* inspection) {
  delete static_cast<OwnedInspection*>(inspection);
}
