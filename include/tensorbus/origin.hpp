#pragma once

#include <cstdint>
#include <tensorbus/id.hpp>

namespace tensorbus::inline v0 {

// The first publisher of a sample that a bridge published again.
struct Origin {
  Id host;  // of a mirror (Python: Header.origin): follows from the name of the machine
  Id writer;
  std::uint64_t sequence = 0;
  bool operator==(const Origin&) const = default;
};

}  // namespace tensorbus::inline v0
