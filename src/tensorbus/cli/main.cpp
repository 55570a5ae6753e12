// The command `tensorbus` without Python: what the processes of a domain have.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <clocale>
#include <csignal>
#include <exception>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <tensorbus/values/error.hpp>
#include <tensorbus/version.hpp>
#include <vector>

#include "tensorbus/cli/commands.hpp"
#include "tensorbus/cli/completion.hpp"
#include "tensorbus/cli/help.hpp"
#include "tensorbus/cli/other_programs.hpp"
#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/python_commands.hpp"
#include "tensorbus/cli/texts.hpp"

namespace tensorbus::cli {
namespace {

constexpr const char* kAbout =
    "Tensors from one process to another, by reference.\n\n"
    "The exit status is 0; 1 if something was not found or has failed; 2 for a wrong command "
    "line; 130 after Ctrl-C.";

void add_all(CLI::App& all) {
  all.formatter(std::make_shared<Help>());  // also that of the commands that are added
  all.set_help_flag("-h,--help", "Show this message and exit.");
  all.set_version_flag("--version", std::string("tensorbus ") + kVersion,
                       "Show the version and exit.");
  all.require_subcommand(1);
  add_topic(all);
  add_node(all);
  add_queue(all);
  add_service(all);
  add_param(all);
  add_memory(all);
  add_inspect(all);
  add_record(all);
  add_recorder(all);
  add_play(all);
  add_player(all);
  add_recording(all);
  add_python_commands(all);
}

bool is_other(const CLI::App& all, const std::string& name) {
  const auto has_name = [&](const CLI::App* command) { return command->get_name() == name; };
  return !name.empty() && !name.starts_with('-') && all.get_subcommands(has_name).empty();
}

// Prints an error of one line or of several.
void print_lines(std::string_view text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  print_error(shown(text.substr(0, end)));
  for (text.remove_prefix(end); !text.empty();) {
    text.remove_prefix(1);
    const std::size_t next = std::min(text.find('\n'), text.size());
    print_line(shown(text.substr(0, next)));
    text.remove_prefix(next);
  }
}

// Returns why a command line is wrong that ends before a command, or has a word that is none.
std::string missing_command(const CLI::App& all, const std::string& why) {
  const CLI::App* group = &all;
  std::string names = "tensorbus";
  while (!group->get_subcommands().empty()) {
    group = group->get_subcommands().front();
    names += ' ' + group->get_name();
  }
  if (group->get_require_subcommand_min() == 0) return why;  // an argument is missing
  const std::vector<std::string> words = group->remaining();
  if (words.empty()) return "a command is missing: see " + names + " --help";
  const std::string kind = words.front().starts_with('-') ? "option '" : "command '";
  return "there is no " + kind + words.front() + "': see " + names + " --help";
}

int parse(CLI::App& all, int count, const char* const* arguments) {
  try {
    all.parse(count, arguments);
    flush();
    return 0;
  } catch (const CLI::RequiredError& error) {
    print_error(shown(missing_command(all, error.what())));
    return kUsage;
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    std::ostringstream errors;
    const int status = all.exit(error, out, errors);
    print(out.str());
    flush();
    if (status == 0) return 0;
    print_error(shown(error.what()));
    return kUsage;
  }
}

// Not before another program is run: it would inherit an ignored SIGPIPE.
void set_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  // A shell may have had it ignored, for a command in the background.
  if (std::signal(SIGINT, [](int) { _exit(kInterrupted); }) == SIG_IGN)
    std::signal(SIGINT, SIG_IGN);
}

int run(int count, const char* const* arguments) {
  try {
    CLI::App all(kAbout, "tensorbus");
    add_all(all);
    if (complete(all)) return 0;
    if (count > 1 && is_python_command(arguments[1], count > 2 ? arguments[2] : ""))
      run_python_command(arguments + 1);
    if (count > 1 && is_other(all, arguments[1])) run_other_program(arguments + 1);
    set_signals();
    return parse(all, count, arguments);
  } catch (const Exit& end) {
    if (*end.what() != '\0') print_error(end.what());
    return end.status();
  } catch (const Error& error) {
    print_lines(error.what());
    return error.code() == Code::kInvalidArgument ? kUsage : kFailed;
  } catch (const std::exception& error) {  // no memory, for example
    print_lines(error.what());
    return kFailed;
  }
}

}  // namespace
}  // namespace tensorbus::cli

int main(int count, const char* const* arguments) {
  using namespace tensorbus::cli;
  take_over_streams();
  std::setlocale(LC_CTYPE, "C.UTF-8");
  return run(count, arguments);
}
