#include "tensorbus/bus/domain.hpp"

#include <unistd.h>

#include <cstdlib>
#include <set>

#include "tensorbus/bus/topic_name.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {
namespace {

std::string base_directory() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/' && ::access(runtime, W_OK) == 0)
    return std::string(runtime) + "/tensorbus";
  return "/tmp/tensorbus-" + std::to_string(::geteuid());
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string domain_path(const std::string& asked) {
  std::string domain = asked.empty() ? environment("TENSORBUS_DOMAIN") : asked;
  if (domain.empty()) domain = "default";
  if (domain.find('/') != std::string::npos) return domain;
  if (domain == "." || domain == "..")
    throw Error(Code::kInvalidArgument, "\"" + domain + "\" names no domain");
  return base_directory() + "/" + domain;
}

Domain::Domain(const std::string& asked)
    : path_(domain_path(asked)), directory_(platform::open_private_directory(path_)) {}

platform::Fd Domain::listen(const Id& participant) const {
  return platform::listen_in(directory_.get(), temporary_socket_name(participant),
                             socket_name(participant));
}

platform::Connection Domain::connect(const Id& participant) const {
  return platform::connect_in(directory_.get(), socket_name(participant));
}

void Domain::remove_files_of(const Id& participant) const {
  for (const std::string& name : list())
    if (owner_of_file(name) == participant) remove_file(name);
}

void Domain::sweep(const Id& self) const {
  std::set<Id> owners;
  for (const std::string& name : list())
    if (const auto owner = owner_of_file(name); owner && *owner != self) owners.insert(*owner);
  for (const Id& owner : owners) {
    // A newborn has its temporary socket only; the dead with nothing but a temporary socket refuse
    // a connection there as well.
    const auto outcome = connect(owner).outcome;
    if (outcome != platform::Connect::kDead) continue;
    if (platform::connect_in(directory_.get(), temporary_socket_name(owner)).outcome ==
        platform::Connect::kDead)
      remove_files_of(owner);
  }
}

}  // namespace tensorbus::bus
