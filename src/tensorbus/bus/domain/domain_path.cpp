#include "tensorbus/bus/domain/domain_path.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <utility>

#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/files/directory.hpp"
#include "tensorbus/platform/files/private_directory.hpp"
#include "tensorbus/platform/unix_socket.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::size_t kMaxNamed = 8;  // maximum listed in a message

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Makes the path absolute: the process may change its directory later.
std::string absolute(const std::string& path) {
  if (path.front() == '/') return path;
  const std::unique_ptr<char, decltype(&std::free)> here(::getcwd(nullptr, 0), &std::free);
  if (here == nullptr)
    throw Error(Code::kSystem, "the domain \"" + path +
                                   "\" is relative to the current directory, " +
                                   "which is not known: " + std::generic_category().message(errno));
  return std::string(here.get()) + "/" + path;
}

// A relative TENSORBUS_DOMAIN, and the path that it means.
struct RelativeDomain {
  std::string text;
  std::string path;
  const RelativeDomain* before;
};

// The relative domains that were used, the latest first. Forked children inherit the list. Never
// destroyed.
std::atomic<const RelativeDomain*> relative_domains{nullptr};

// Returns TENSORBUS_DOMAIN. A relative path is based on the current directory of its first use.
std::string domain_of_environment() {
  std::string text = environment("TENSORBUS_DOMAIN");
  if (!is_domain_path(text) || text.front() == '/') return text;
  // Acquire: pairs with the release below.
  const RelativeDomain* before = relative_domains.load(std::memory_order_acquire);
  for (const auto* known = before; known != nullptr; known = known->before)
    if (known->text == text) return known->path;
  const auto* const used = new RelativeDomain{text, absolute(text), before};
  // If another thread has added an entry in the meantime, this entry is not kept.
  if (!relative_domains.compare_exchange_strong(before, used, std::memory_order_release,
                                                std::memory_order_relaxed))
    return std::unique_ptr<const RelativeDomain>(used)->path;
  return used->path;
}

// Returns the directory that a login makes for the user (systemd, elogind), if it exists. Not
// XDG_RUNTIME_DIR: cron and system services have none, and sudo may keep another user's.
std::string login_base() {
  const std::string path = "/run/user/" + std::to_string(::geteuid());
  struct stat status{};
  const bool usable = ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
                      status.st_uid == ::geteuid() && (status.st_mode & 022) == 0 &&
                      ::access(path.c_str(), W_OK | X_OK) == 0;
  return usable ? path + "/tensorbus" : "";
}

std::string path_in(const std::string& directory, const std::string& name) {
  return directory + "/" + name;
}

std::string temporary_base() { return "/tmp/tensorbus-" + std::to_string(::geteuid()); }

// Rethrows a shortage. Any other error means that no process of this user is there.
void require_no_shortage(const Error& error) {
  if (error.code() == Code::kOutOfMemory) throw error;
}

bool has_listener(int directory, const std::string& name) {
  try {
    return is_socket_name(name) &&
           platform::connect_in(directory, name).outcome != platform::Connect::kDead;
  } catch (const Error& error) {
    require_no_shortage(error);
    return false;
  }
}

bool has_participants(const std::string& path) {
  try {
    const auto opened = platform::open_private(path, platform::IfMissing::kLeave);
    if (!opened.directory) return false;
    for (const std::string& name : platform::list_directory(opened.directory.get()))
      if (has_listener(opened.directory.get(), name)) return true;
  } catch (const Error& error) {  // another user's, or not usable
    require_no_shortage(error);
  }
  return false;
}

std::string place_of(const std::string& name) {
  const std::string at_login = login_base();
  std::string temporary = path_in(temporary_base(), name);
  if (at_login.empty()) return temporary;
  std::string preferred = path_in(at_login, name);
  struct stat status{};
  if (::lstat(temporary.c_str(), &status) != 0) return preferred;
  // A bus that began before the login stays where it is until its last process ends.
  return !has_participants(preferred) && has_participants(temporary) ? temporary : preferred;
}

// Returns the directories that may contain named domains, including those of earlier versions.
std::vector<std::string> bases() {
  std::vector<std::string> all{temporary_base()};
  if (std::string base = login_base(); !base.empty()) all.push_back(std::move(base));
  const std::string xdg = environment("XDG_RUNTIME_DIR");
  if (xdg.starts_with('/') && xdg + "/tensorbus" != all.back()) all.push_back(xdg + "/tensorbus");
  return all;
}

std::vector<std::string> names_in(const std::string& base) {
  try {
    const auto opened = platform::open_private(base, platform::IfMissing::kLeave);
    if (opened.directory) return platform::list_directory(opened.directory.get());
  } catch (const Error& error) {  // another user's, or not usable
    require_no_shortage(error);
  }
  return {};
}

}  // namespace

std::string domain_asked_for(const std::string& asked) {
  std::string domain = asked.empty() ? domain_of_environment() : asked;
  return domain.empty() ? "default" : domain;
}

std::string domain_path(const std::string& asked) {
  const std::string domain = domain_asked_for(asked);
  if (is_domain_path(domain)) return absolute(domain);
  if (domain == "." || domain == "..")
    throw Error(Code::kInvalidArgument, "domain \"" + domain + "\": expected a name or a path");
  return place_of(domain);
}

std::vector<std::string> domains_beside(const std::string& path) {
  std::vector<std::string> all;
  for (const std::string& base : bases())
    for (const std::string& name : names_in(base)) {
      const std::string other = path_in(base, name);
      if (name != "." && name != ".." && other != path && has_participants(other))
        all.push_back(other);
    }
  return all;
}

std::string elsewhere_text(const std::string& path) {
  const std::string base = path.substr(0, path.rfind('/'));
  const std::vector<std::string> known = bases();
  if (std::find(known.begin(), known.end(), base) == known.end()) return {};
  std::vector<std::string> others;
  try {
    others = domains_beside(path);
  } catch (const Error&) {  // a shortage: the message itself is more important
  }
  if (others.empty()) return {};
  std::string text = ". Processes of this user also run in";
  for (std::size_t i = 0; i < others.size() && i < kMaxNamed; ++i)
    text += (i == 0 ? " " : ", ") + others[i];
  return text + ", which are separate buses: see TENSORBUS_DOMAIN and `tensorbus doctor`";
}

}  // namespace tensorbus::bus
