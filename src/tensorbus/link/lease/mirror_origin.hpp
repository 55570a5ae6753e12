#pragma once

#include <string>

namespace tensorbus::link {

// The publisher of another machine that a mirror stands for (docs/bridge_protocol.md).
struct MirrorOrigin {
  std::string machine;    // its name
  std::string publisher;  // its name there: "<32 hex digits>.<number>"
};

}  // namespace tensorbus::link
