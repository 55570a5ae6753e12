#pragma once

#include <string>
#include <vector>

#include "tensorbus/platform/export.hpp"

namespace tensorbus::bus {

// Returns the path of a domain. `asked` is a path if it contains a slash, else a name; if it is
// empty, TENSORBUS_DOMAIN is used, else "default". A relative path in TENSORBUS_DOMAIN is based on
// the current directory of its first use in this process, or in the process that forked it. A name
// means a directory of this user: /run/user/<uid>/tensorbus/<name> if /run/user/<uid> exists, else
// /tmp/tensorbus-<uid>/<name>. The path in /tmp is also used if living processes are there and none
// in /run (docs/internals/decisions/0019-one-user-has-one-bus.md).
std::string domain_path(const std::string& asked);
// Returns the name or path that domain_path() turns into a path.
std::string domain_asked_for(const std::string& asked);
inline bool is_domain_path(const std::string& asked_for) {
  return asked_for.find('/') != std::string::npos;
}

// Returns other domains of this user with living participants: a possible reason why two processes
// do not find each other.
std::vector<std::string> domains_beside(const std::string& path);
// Returns these domains as the end of a message; empty if none, or if the domain is a given path.
TENSORBUS_API std::string elsewhere_text(const std::string& path);

}  // namespace tensorbus::bus
