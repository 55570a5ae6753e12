#include "tensorbus/cli/other_programs.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <string>
#include <system_error>
#include <vector>

#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/texts.hpp"

namespace tensorbus::cli {
namespace {

// Returns the folder of this program, with a slash; "" if it is not known.
std::string own_folder() {
  std::array<char, PATH_MAX> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  const std::string program(path.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  return program.substr(0, program.rfind('/') + 1);
}

}  // namespace

void run_if_there(const std::string& program, const char* const* arguments) {
  std::vector<char*> given{const_cast<char*>(program.c_str())};
  for (const char* const* each = arguments; *each != nullptr; ++each)
    given.push_back(const_cast<char*>(*each));
  given.push_back(nullptr);
  const std::string folder = own_folder();
  errno = ENOENT;
  if (!folder.empty()) ::execv((folder + program).c_str(), given.data());
  if (errno == ENOENT) ::execvp(program.c_str(), given.data());
  // ENOTDIR: an entry of $PATH is a file.
  if (errno != ENOENT && errno != ENOTDIR)
    throw Exit(kFailed, program + ": " + std::generic_category().message(errno));
}

void run_other_program(const char* const* arguments) {
  const std::string name = arguments[0];
  const std::string program = "tensorbus-" + name;
  if (name.find('/') == std::string::npos) run_if_there(program, arguments + 1);
  throw Exit(kUsage, "there is no command '" + shown(name) + "', and no program " + shown(program) +
                         " for it");
}

}  // namespace tensorbus::cli
