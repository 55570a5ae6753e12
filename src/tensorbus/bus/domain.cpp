#include "tensorbus/bus/domain.hpp"

#include <unistd.h>

#include <cstdlib>
#include <new>
#include <set>

#include "tensorbus/bus/topic_name.hpp"
#include "tensorbus/link/wake.hpp"
#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {
namespace {

// Each may be lost to a sweep; all only if something else is wrong, and then a thousand take 20 ms.
constexpr int kListenAttempts = 1000;

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
  const std::string temporary = temporary_socket_name(participant);
  for (int attempt = 1;; ++attempt) {
    try {
      return platform::listen_in(directory_.get(), temporary, socket_name(participant));
    } catch (const Error& error) {
      // A sweep may have taken the socket for dead before it listened: then it is made again.
      remove_file(temporary);
      if (attempt == kListenAttempts || error.code() != Code::kSystem) throw;
    } catch (const std::bad_alloc&) {
      remove_file(temporary);
      throw;
    }
  }
}

platform::Connection Domain::connect(const Id& participant) const {
  return platform::connect_in(directory_.get(), socket_name(participant));
}

Outcome Domain::wait(std::chrono::nanoseconds timeout, const GiveUp& give_up,
                     const std::function<bool()>& holds) const {
  platform::DirectoryWatch changes = watch();
  const platform::Deadline deadline(timeout);
  while (!holds()) {
    if (deadline.passed()) return Outcome::kTimedOut;
    if (give_up && give_up()) return Outcome::kInterrupted;
    changes.wait(deadline.remaining(link::kParkSlice));
  }
  return Outcome::kDone;
}

void Domain::remove_files_of(const Id& participant) const {
  for (const std::string& name : list())
    if (owner_of_file(name) == participant) remove_file(name);
}

void Domain::sweep(const Id& self) const {
  std::set<Id> owners;
  for (const std::string& name : list()) {
    const auto owner = owner_of_file(name);
    if (!owner || *owner == self) continue;
    if (name != temporary_socket_name(*owner))
      owners.insert(*owner);
    else if (is_dead(name))
      remove_file(name);  // this name alone: a newborn may have got its final one just now
  }
  // These have listened once, so who refuses a connection is dead.
  for (const Id& owner : owners)
    if (is_dead(socket_name(owner))) remove_files_of(owner);
}

bool Domain::is_dead(const Id& participant) const { return is_dead(socket_name(participant)); }

bool Domain::is_dead(const std::string& socket) const {
  try {
    return platform::connect_in(directory_.get(), socket).outcome == platform::Connect::kDead;
  } catch (const Error&) {  // out of descriptors, or another user's: somebody else will find out
    return false;
  }
}

}  // namespace tensorbus::bus
