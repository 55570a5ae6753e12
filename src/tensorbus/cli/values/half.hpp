#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tensorbus::cli {

// Floats of 16 bits, which C++20 does not have.
struct Half {
  std::uint16_t bits;
  explicit operator double() const {
    const int exponent = bits >> 10U & 0x1f;
    const double fraction = bits & 0x3ffU;
    const double size = exponent == 0   ? std::ldexp(fraction, -24)
                        : exponent < 31 ? std::ldexp(fraction + 1024, exponent - 25)
                        : fraction == 0 ? std::numeric_limits<double>::infinity()
                                        : std::numeric_limits<double>::quiet_NaN();
    return (bits & 0x8000U) != 0 ? -size : size;
  }
};
struct BrainFloat {
  std::uint16_t bits;
  explicit operator double() const { return std::bit_cast<float>(std::uint32_t{bits} << 16U); }
};

}  // namespace tensorbus::cli
