#include "tensorbus/cli/completion.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <set>
#include <string>
#include <string_view>
#include <tensorbus/inspection.hpp>
#include <tensorbus/listing.hpp>
#include <utility>
#include <vector>

#include "tensorbus/cli/commands.hpp"
#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/python_commands.hpp"

namespace tensorbus::cli {
namespace {

constexpr std::chrono::milliseconds kPatience{200};  // with processes that do not reply

// Returns the words of a line that has no character of a quotation after its last one: a shell has
// not ended it yet.
std::vector<std::string> words_in(std::string_view line) {
  std::vector<std::string> words(1);
  char quote = 0;
  bool is_escaped = false;
  for (const char character : line) {
    if (is_escaped)
      words.back() += std::exchange(is_escaped, false) ? character : ' ';
    else if (character == '\\' && quote != '\'')
      is_escaped = true;
    else if (quote != 0)
      character == quote ? void(quote = 0) : words.back().push_back(character);
    else if (character == '\'' || character == '"')
      quote = character;
    else if (character != ' ' && character != '\t')
      words.back() += character;
    else if (!words.back().empty())
      words.emplace_back();
  }
  return words;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// What has been typed: the command, and what may follow.
class Line {
 public:
  Line(const CLI::App& all, const std::vector<std::string>& words)
      : command_(&all), last_(words.back()) {
    for (std::size_t i = 1; i + 1 < words.size(); ++i) read(words[i]);
  }

  // Each word with its help.
  std::vector<std::pair<std::string, std::string>> candidates() const {
    std::vector<std::pair<std::string, std::string>> found;
    if (expects_value_) return found;
    const auto add = [&](const std::string& word, const std::string& help) {
      if (word.starts_with(last_)) found.emplace_back(word, first_line(help));
    };
    if (last_.starts_with('-')) {
      for (const CLI::Option* option : command_->get_options())
        for (const std::string& name : option->get_lnames())
          add("--" + name, option->get_description());
      return found;
    }
    for (const CLI::App* each : command_->get_subcommands([](const CLI::App*) { return true; }))
      add(each->get_name(), each->get_description());
    for (const std::string& name : names()) add(name, "");
    return found;
  }

 private:
  void read(const std::string& word) {
    if (std::exchange(expects_value_, false)) {
      if (std::exchange(expects_domain_, false)) domain_ = word;
      return;
    }
    if (word.starts_with('-')) {
      const std::size_t sign = word.find('=');
      const CLI::Option* const option = command_->get_option_no_throw(word.substr(0, sign));
      const bool is_domain = word.starts_with("--domain");
      if (sign != std::string::npos && is_domain) domain_ = word.substr(sign + 1);
      expects_value_ =
          sign == std::string::npos && option != nullptr && option->get_items_expected_max() != 0;
      expects_domain_ = expects_value_ && is_domain;
      return;
    }
    const auto has_name = [&](const CLI::App* each) { return each->get_name() == word; };
    const auto found = command_->get_subcommands(has_name);
    if (found.empty())
      ++arguments_;
    else
      command_ = found.front();
  }

  // Returns the names on the domain that the next argument may be.
  std::set<std::string> names() const {
    std::vector<const CLI::Option*> positional;
    for (const CLI::Option* option : command_->get_options())
      if (option->get_positional()) positional.push_back(option);
    const std::string kind = arguments_ < positional.size() ? positional[arguments_]->get_name(true)
                             : command_->get_name() == "record" ? "TOPIC"
                                                                : "";
    std::set<std::string> found;
    if (kind == "TOPIC")
      for (const auto& each : list_publishers(participant_of(domain_))) found.insert(each.topic);
    if (kind == "NODE")
      for (const auto& each : list_nodes(participant_of(domain_))) found.insert(each.name);
    if (kind == "QUEUE" || kind == "SERVICE")
      for (const auto& process : tensorbus::inspect(domain_, kPatience).participants)
        for (const auto& queue : process.queues)
          if (queue.service.empty() == (kind == "QUEUE"))
            found.insert(kind == "QUEUE" ? queue.name : queue.service);
    found.erase("");
    return found;
  }

  const CLI::App* command_;
  const std::string last_;  // the word that is completed
  std::string domain_;
  std::size_t arguments_ = 0;  // before the last word, of the command
  bool expects_value_ = false;
  bool expects_domain_ = false;
};

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

bool complete(const CLI::App& all) {
  const std::string asked = variable("_TENSORBUS_COMPLETE");
  if (asked.empty()) return false;
  const bool is_bash = asked == "complete_bash";
  const std::string line = variable(is_bash ? "COMP_WORDS" : "_TYPER_COMPLETE_ARGS");
  try {
    const std::vector<std::string> words = words_in(line);
    // Not the last one, which is not complete.
    const auto complete_word = [&](std::size_t i) { return i + 1 < words.size() ? words[i] : ""; };
    const char* const nothing = nullptr;
    if (is_python_command(complete_word(1), complete_word(2))) run_python_command(&nothing);
    for (const auto& [word, help] : Line(all, words).candidates()) {
      print(word);
      if (!is_bash && !help.empty()) print('\t' + help);
      print("\n");
    }
  } catch (const std::exception&) {  // no domain, for example: there is nothing to complete
  }
  flush();
  return true;
}

}  // namespace tensorbus::cli
