#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tensorbus/id.hpp>
#include <tensorbus/internal/fields.hpp>
#include <tensorbus/internal/tensors.hpp>
#include <tensorbus/options.hpp>
#include <vector>

// Structs of counters and of an inspection, from their C structs.
namespace tensorbus::inline v0 {
namespace internal {

// For list_fields(): fills each field that the C struct has.
class FromC {
 public:
  void operator()(const char*, auto&) const noexcept {}
  void operator()(const char*, auto& field, const auto& given) const { get(field, given); }

  void get(HasList auto& report, const auto& given) const {
    list_fields(*this, report, given);
    if constexpr (requires { report.stats.last_refusal; })
      report.stats.last_refusal = given.last_refusal;
  }
  void get(HasList auto& report, const auto* given) const {
    if (given != nullptr) get(report, *given);
  }

 private:
  void get(bool& flag, std::int32_t given) const noexcept { flag = given != 0; }
  void get(double& number, double given) const noexcept { number = given; }
  void get(std::unsigned_integral auto& number, std::unsigned_integral auto given) const noexcept {
    number = given;
  }
  void get(std::chrono::nanoseconds& time, std::integral auto given) const noexcept {
    time = std::chrono::nanoseconds(given);
  }
  void get(Access& access, std::int32_t given) const noexcept {
    access = static_cast<Access>(given);  // C has the same numbers
  }
  void get(std::string& text, const char* given) const { text = given; }
  void get(Id& id, const std::uint8_t (&given)[16]) const noexcept { id = id_of(given); }
  template <typename Part, typename Items, typename Count>
  void get(std::vector<Part>& parts, const CList<Items, Count>& given) const {
    for (std::size_t i = 0; i < given.count; ++i) get(parts.emplace_back(), given.items[i]);
  }
};

template <typename Report>
Report from_c(const auto& given) {
  Report report;
  FromC{}.get(report, given);
  return report;
}

}  // namespace internal
}  // namespace tensorbus::inline v0
