#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <tensorbus/sample.hpp>
#include <tensorbus/values/error.hpp>
#include <tensorbus/values/value.hpp>
#include <utility>

namespace tensorbus::inline v0 {

// The time of a sample in ns: of a function, or of the field with this name, which is an integer
// (ns) or a double (seconds). The default is the time of publishing, SampleHeader::timestamp_ns.
class SampleTime : public std::function<std::int64_t(const Sample&)> {
 public:
  using std::function<std::int64_t(const Sample&)>::function;
  SampleTime(const char* field) : SampleTime(std::string(field)) {}
  SampleTime(std::string field);
};

namespace internal {

// Throws Error(kTypeMismatch) unless the value is a time.
inline std::int64_t nanoseconds_of(const Value& value, const std::string& field) {
  if (value.is<std::int64_t>()) return value.as<std::int64_t>();
  static constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (value.is<double>()) {
    const double time = std::nearbyint(value.as<double>() * 1e9);
    if (time >= -kLimit && time < kLimit) return static_cast<std::int64_t>(time);
  }
  throw Error(Code::kTypeMismatch, "field \"" + field +
                                       "\": expected a time, an integer in nanoseconds or a "
                                       "double in seconds, within 64 bits of nanoseconds");
}

}  // namespace internal

inline SampleTime::SampleTime(std::string field)
    : function([field = std::move(field)](const Sample& sample) {
        const Value fields = sample.fields();
        if (const Value* time = fields.find(field)) return internal::nanoseconds_of(*time, field);
        throw Error(Code::kTypeMismatch, "topic \"" + std::string(sample.header().topic) +
                                             "\": no field \"" + field + '"' +
                                             internal::why_no_field(fields));
      }) {}

}  // namespace tensorbus::inline v0
