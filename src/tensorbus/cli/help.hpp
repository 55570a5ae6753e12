#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>

namespace tensorbus::cli {

// The help of commands, with lines of at most 100 characters. A list of commands has the first line
// of the description of each.
class Help : public CLI::Formatter {
 public:
  //   words   what the usage shows after the options, of a command that does not declare its words
  explicit Help(std::string words = "") : words_(std::move(words)) {}
  std::string make_help(const CLI::App* command, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_usage(const CLI::App* command, std::string name) const override;
  std::string make_description(const CLI::App* command) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_option_desc(const CLI::Option* option) const override;

 private:
  std::string words_;
};

}  // namespace tensorbus::cli
