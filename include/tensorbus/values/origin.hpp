#pragma once

#include <cstdint>
#include <tensorbus/values/id.hpp>

namespace tensorbus::inline v0 {

// The first publisher of a sample that a bridge published again.
struct Origin {
  Id host;  // for a mirror (Python: Header.origin): derived from the machine's name
  Id writer;
  std::uint64_t sequence = 0;
  bool operator==(const Origin&) const = default;
};

}  // namespace tensorbus::inline v0
