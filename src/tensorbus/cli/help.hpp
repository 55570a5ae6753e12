#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>

namespace tensorbus::cli {

// The help of commands: lines of at most 100 characters, and of a command in a list only the first
// sentences.
class Help : public CLI::Formatter {
 public:
  //   words   what the usage shows after the options, of a command that does not declare its words
  explicit Help(std::string words = "") : words_(std::move(words)) {}
  std::string make_usage(const CLI::App* command, std::string name) const override;
  std::string make_description(const CLI::App* command) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_option_desc(const CLI::Option* option) const override;

 private:
  std::string words_;
};

}  // namespace tensorbus::cli
