#include "tensorbus/cli/help.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace tensorbus::cli {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kNames = 14;  // the column of the names of commands

// Returns a text with newlines in place of spaces, so that no line is longer than `columns`.
std::string wrapped(const std::string& text, std::size_t columns) {
  std::string lines;
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    if (end - begin > columns) {
      const std::size_t space = text.rfind(' ', begin + columns);
      if (space != std::string::npos && space > begin) end = space;
    }
    lines += text.substr(begin, end - begin);
    if (end < text.size()) lines += '\n';
    begin = std::min(text.find_first_not_of(' ', end + 1), text.size());
  }
  return lines;
}

}  // namespace

// As in CLI::Formatter; versions from 2.5 on would wrap the examples.
std::string Help::make_help(const CLI::App* command, std::string name,
                            CLI::AppFormatMode mode) const {
  return make_description(command) + make_usage(command, std::move(name)) +
         make_positionals(command) + make_groups(command, mode) + make_subcommands(command, mode) +
         '\n' + make_footer(command);
}

std::string Help::make_usage(const CLI::App* command, std::string name) const {
  std::string usage = CLI::Formatter::make_usage(command, std::move(name));
  return usage.insert(usage.find_last_not_of('\n') + 1, words_);
}

std::string Help::make_description(const CLI::App* command) const {
  return wrapped(command->get_description(), kColumns) + "\n\n";
}

std::string Help::make_subcommand(const CLI::App* command) const {
  const std::string about = command->get_description();
  std::string name = "  " + command->get_name();
  name.resize(std::max(name.size() + 1, kNames), ' ');
  const std::string lines = wrapped(about.substr(0, about.find('\n')), kColumns - kNames);
  std::string text = name;
  for (const char each : lines)
    if (each == '\n')
      text.append("\n").append(kNames, ' ');
    else
      text += each;
  return text + '\n';
}

std::string Help::make_option_desc(const CLI::Option* option) const {
  return wrapped(option->get_description(), kColumns - get_column_width());
}

}  // namespace tensorbus::cli
