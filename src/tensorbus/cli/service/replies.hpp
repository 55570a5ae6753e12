#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <tensorbus/internal/fields.hpp>
#include <tensorbus/values/value.hpp>
#include <type_traits>
#include <utility>

// What `tensorbus record` and `tensorbus play` reply to other commands: a file and counters, by
// their names. The commands of both languages understand each other.
namespace tensorbus::cli {
namespace replies {

// For list_fields().
struct ToMap {
  Value::Map map;
  void operator()(const char* name, const auto& value) { map.emplace_back(name, value); }
  void operator()(const char* name, std::uint32_t value) {
    map.emplace_back(name, std::uint64_t{value});
  }
};
struct FromMap {
  const Value& map;

  void operator()(const char* name, std::unsigned_integral auto& to) const {
    using Field = std::remove_reference_t<decltype(to)>;
    std::int64_t number = 0;
    if (read(name, number) && std::in_range<Field>(number)) to = static_cast<Field>(number);
  }
  void operator()(const char* name, bool& to) const { read(name, to); }
  void operator()(const char* name, double& to) const { read(name, to); }
  void operator()(const char* name, std::string& to) const { read(name, to); }

 private:
  template <typename Field>
  bool read(const char* name, Field& to) const {
    const Value* const found = map.find(name);
    if (found == nullptr || !found->is<Field>()) return false;
    to = found->as<Field>();
    return true;
  }
};

}  // namespace replies

// Returns the reply.
Value reply_of(const std::string& file, const internal::HasList auto& stats) {
  replies::ToMap each{{{"file", file}}};
  internal::list_fields(each, stats);
  return std::move(each.map);
}

// Returns the counters of a reply. Fields that another version does not have are as they were made.
template <internal::HasList Stats>
Stats stats_in(const Value& reply) {
  Stats stats;
  const replies::FromMap each{reply};
  internal::list_fields(each, stats);
  return stats;
}

// Returns the file of a reply; "" if it has none.
inline std::string file_in(const Value& reply) {
  const Value* const file = reply.find("file");
  return file != nullptr && file->is<std::string>() ? file->as<std::string>() : "";
}

}  // namespace tensorbus::cli
