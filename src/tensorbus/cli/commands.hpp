#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <tensorbus/inspection.hpp>
#include <tensorbus/participant.hpp>
#include <vector>

// The commands. Each function adds one, or a group of them, to the command line.
namespace tensorbus::cli {

void add_topic(CLI::App& all);
void add_node(CLI::App& all);
void add_queue(CLI::App& all);
void add_service(CLI::App& all);
void add_param(CLI::App& all);
void add_memory(CLI::App& all);
void add_inspect(CLI::App& all);
void add_record(CLI::App& all);
void add_recorder(CLI::App& all);
void add_play(CLI::App& all);
void add_player(CLI::App& all);
void add_recording(CLI::App& all);

// Options of several commands.
void add_domain(CLI::App& command, std::string& domain);
void add_json(CLI::App& command, bool& json);
// Returns a check of an argument: a name on the bus, which is UTF-8.
CLI::Validator is_name();
// Returns checks of an option: seconds, of at least `least`; a number of at least 1.
CLI::Validator seconds_from(double least);
CLI::Validator at_least_one();

inline std::chrono::nanoseconds nanoseconds_in(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

// The options of commands that ask processes.
struct Asking {
  std::string domain;
  double timeout = 1.0;  // seconds
  bool json = false;

  void add_to(CLI::App& command);
  std::chrono::nanoseconds limit() const { return nanoseconds_in(timeout); }
  // How long to wait for processes of which the command needs nothing, perhaps.
  std::chrono::nanoseconds short_limit() const {
    return std::min<std::chrono::nanoseconds>(limit(), std::chrono::seconds(1));
  }
  // Inspects the domain. Processes that do not reply are named on standard error, each once.
  Inspection inspect();

 private:
  std::set<Id> named_;
};

// Returns the words that are no options, of a command with allow_extras(). Throws CLI::ExtrasError
// for an unknown option.
std::vector<std::string> words_of(const CLI::App& command);

// The end of the help: "Example: LINE", or all of them below "Examples:".
std::string examples_text(const std::string& lines);

// Adds a command that calls `run` with its options. `examples`: command lines.
template <typename Options>
CLI::App& add_command(CLI::App& group, const std::string& name, const std::string& about,
                      const std::string& examples, void (*run)(Options&)) {
  CLI::App& command = *group.add_subcommand(name, about);
  command.footer(examples_text(examples));
  const auto options = std::make_shared<Options>();
  options->add_to(command);
  command.callback([options, run] { run(*options); });
  return command;
}

// Returns the participant that this process shares on a domain; "" is the default.
Participant participant_of(const std::string& domain);

// Returns the samples that were dropped, of the counters of a publisher or of one subscriber of it.
std::uint64_t dropped(const auto& counters) {
  return counters.dropped_depth + counters.dropped_held + counters.dropped_unsent;
}

}  // namespace tensorbus::cli
