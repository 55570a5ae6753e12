#include "tensorbus/cli/commands.hpp"

#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/texts.hpp"
#include "tensorbus/cli/utf8.hpp"

namespace tensorbus::cli {

std::vector<std::string> words_of(const CLI::App& command) {
  std::vector<std::string> words = command.remaining();
  for (const std::string& word : words)
    if (word.starts_with('-')) throw CLI::ExtrasError({word});
  return words;
}

std::string examples_text(const std::string& lines) {
  if (lines.find('\n') == std::string::npos) return "Example: " + lines;
  std::string text = "Examples:";
  for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = lines.find('\n', begin);
    text += "\n  " + lines.substr(begin, end - begin);
  }
  return text;
}

void add_domain(CLI::App& command, std::string& domain) {
  command.add_option("--domain", domain, "A name or a path in place of $TENSORBUS_DOMAIN.")
      ->option_text("TEXT");
}

void add_json(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "Print JSON, one object on each line.");
}

CLI::Validator is_name() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        for (std::string_view rest = text; !rest.empty();) {
          const Character first = first_character(rest);
          if (!first.valid) return "'" + shown(text) + "' is not UTF-8";
          rest.remove_prefix(first.bytes.size());
        }
        return "";
      },
      "");
}

CLI::Validator at_least_one() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        std::uint64_t number = 0;
        if (CLI::detail::lexical_cast(text, number) && number >= 1) return "";
        return "'" + text + "' is no number from 1";
      },
      "");
}

CLI::Validator seconds_from(double least) {
  return CLI::Validator(
      [least](const std::string& text) -> std::string {
        double seconds = 0;
        const bool is_number = CLI::detail::lexical_cast(text, seconds);
        if (is_number && seconds >= least && seconds <= 1e9) return "";  // not NaN
        return "'" + text + "' is no number of seconds from " + CLI::detail::to_string(least) +
               " to 1e9";
      },
      "");
}

void Asking::add_to(CLI::App& command) {
  add_domain(command, domain);
  const std::string limits =
      "  [default: " + std::to_string(static_cast<int>(timeout)) + ".0; x>=0]";
  command.add_option("--timeout", timeout, "Seconds to wait for answers." + limits)
      ->option_text("S")
      ->check(seconds_from(0));
  add_json(command, json);
}

Inspection Asking::inspect() {
  Inspection found = tensorbus::inspect(domain, limit());
  for (const ParticipantReport& process : found.participants)
    if (!process.error.empty() && named_.insert(process.participant).second)
      print_error(process_name(process) + ": " + shown(process.error));
  return found;
}

Participant participant_of(const std::string& domain) {
  return Participant::shared({.domain = domain});
}

}  // namespace tensorbus::cli
