#include "tensorbus/tensor/dtype.hpp"

#include <array>

namespace tensorbus {
namespace {

struct Info {
  std::string_view name;
  std::size_t bytes;
};

// By number; 0 is no dtype.
constexpr std::array<Info, 16> kInfo{{{"", 0},
                                      {"bool", 1},
                                      {"uint8", 1},
                                      {"int8", 1},
                                      {"uint16", 2},
                                      {"int16", 2},
                                      {"uint32", 4},
                                      {"int32", 4},
                                      {"uint64", 8},
                                      {"int64", 8},
                                      {"float16", 2},
                                      {"bfloat16", 2},
                                      {"float32", 4},
                                      {"float64", 8},
                                      {"complex64", 8},
                                      {"complex128", 16}}};

const Info& info(DType dtype) noexcept {
  const auto number = static_cast<std::size_t>(dtype);
  return kInfo[number < kInfo.size() ? number : 0];
}

}  // namespace

std::size_t item_bytes(DType dtype) noexcept { return info(dtype).bytes; }

std::string_view name_of(DType dtype) noexcept { return info(dtype).name; }

std::optional<DType> dtype_named(std::string_view name) noexcept {
  for (std::size_t number = 1; number < kInfo.size(); ++number)
    if (kInfo[number].name == name) return static_cast<DType>(number);
  return std::nullopt;
}

}  // namespace tensorbus
