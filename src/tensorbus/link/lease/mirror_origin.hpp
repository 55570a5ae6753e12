#pragma once

#include <string>

namespace tensorbus::link {

// The publisher on another machine that a mirror represents (docs/internals/bridge_protocol.md).
struct MirrorOrigin {
  std::string machine;    // name of the machine
  std::string publisher;  // name on that machine: "<32 hex digits>.<number>"
};

}  // namespace tensorbus::link
