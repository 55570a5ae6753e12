#include "tensorbus/bus/inspect/process_info.hpp"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <string_view>
#include <vector>

namespace tensorbus::bus {
namespace {

constexpr std::size_t kMaxArguments = 4096;  // maximum bytes read of a command line

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::string text(kMaxArguments, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

std::vector<std::string_view> arguments_of(std::string_view command) {
  std::vector<std::string_view> arguments;
  while (!command.empty()) {
    arguments.push_back(command.substr(0, command.find('\0')));
    command.remove_prefix(std::min(arguments.back().size() + 1, command.size()));
  }
  return arguments;
}

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Returns the script or module that Python runs; empty for code on the command line (-c).
std::string_view script_of(const std::vector<std::string_view>& arguments) {
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (!argument.starts_with('-')) return file_name(argument);
    if (argument == "-c") return {};
    if (argument == "-m") return i + 1 < arguments.size() ? arguments[i + 1] : std::string_view();
    if (argument == "-W" || argument == "-X") ++i;  // options with a value
  }
  return {};
}

}  // namespace

std::string process_name(const std::string& pid) {
  const std::string command = contents("/proc/" + pid + "/cmdline");
  const std::vector<std::string_view> arguments = arguments_of(command);
  if (arguments.empty()) {
    std::string name = contents("/proc/" + pid + "/comm");
    return name.substr(0, name.find('\n'));
  }
  const std::string_view program = file_name(arguments.front());
  const std::string_view script =
      program.starts_with("python") ? script_of(arguments) : std::string_view();
  return std::string(script.empty() ? program : script);
}

std::string process_state(const std::string& pid) {
  const std::string status = contents("/proc/" + pid + "/stat");
  const std::size_t name_end = status.rfind(") ");  // the name may contain any character
  if (name_end == std::string::npos || name_end + 2 >= status.size()) return "has ended";
  switch (status[name_end + 2]) {
    case 'T':
      return "is stopped";
    case 't':
      return "is being traced";
    case 'D':
      return "waits for the kernel";
    case 'Z':
    case 'X':
      return "has ended";
    default:
      return {};
  }
}

}  // namespace tensorbus::bus
