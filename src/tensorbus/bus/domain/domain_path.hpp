#pragma once

#include <string>
#include <vector>

namespace tensorbus::bus {

// The path of a domain: what was asked for (a path if it has a slash, else a name), else
// TENSORBUS_DOMAIN, else "default". Of a name it is the place where this user's processes meet:
// /run/user/<uid>/tensorbus/<name> if that directory of the user exists, else
// /tmp/tensorbus-<uid>/<name>; and /tmp as well, if living processes are there and none in /run
// (docs/decisions/0019-one-user-has-one-bus.md).
std::string domain_path(const std::string& asked);
// The name or the path itself.
std::string domain_asked_for(const std::string& asked);
inline bool is_domain_path(const std::string& asked_for) {
  return asked_for.find('/') != std::string::npos;
}

// Other domains of this user in which somebody is alive: why two processes may not find each other.
std::vector<std::string> domains_beside(const std::string& path);
// The same as the end of a message; empty if there are none, or this one was given as a path.
std::string elsewhere_text(const std::string& path);

}  // namespace tensorbus::bus
