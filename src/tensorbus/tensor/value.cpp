#include "tensorbus/tensor/value.hpp"

#include <array>
#include <limits>

#include "tensorbus/platform/error.hpp"

namespace tensorbus {
namespace {

constexpr std::array<const char*, 12> kTypeNames = {"nil",    "bool",   "int64",  "uint64",
                                                    "double", "string", "bytes",  "list",
                                                    "map",    "tuple",  "tensor", "extension"};
static_assert(kTypeNames.size() == std::variant_size_v<Value::Variant>);

}  // namespace

Value::Value(std::uint64_t value) {
  if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    variant_ = static_cast<std::int64_t>(value);
  else
    variant_ = value;
}

const Value* Value::find(std::string_view key) const noexcept {
  const Map* map = std::get_if<Map>(&variant_);
  if (map == nullptr) return nullptr;
  for (const auto& [name, value] : *map) {
    const auto* text = std::get_if<std::string>(&name.variant_);
    if (text != nullptr && *text == key) return &value;
  }
  return nullptr;
}

const Value& Value::at(std::string_view key) const {
  if (const Value* value = find(key)) return *value;
  throw Error(Code::kInvalidArgument,
              "no field \"" + std::string(key) + "\" in a " + kTypeNames[variant_.index()]);
}

void Value::throw_wrong_type(std::size_t wanted) const {
  throw Error(Code::kInvalidArgument, std::string("expected a ") + kTypeNames[wanted] +
                                          ", this is a " + kTypeNames[variant_.index()]);
}

}  // namespace tensorbus
