#pragma once

#include <cstdint>

#include "tensorbus/platform/id.hpp"

namespace tensorbus {

// Who published a sample first, when a bridge published it again.
struct Origin {
  Id host;
  Id writer;
  std::uint64_t sequence = 0;
  bool operator==(const Origin&) const = default;
};

}  // namespace tensorbus
