#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// Standard output, and how a command ends.
namespace tensorbus::cli {

// Ends the command with this exit status; `what()` is a line on standard error, if not empty.
class Exit : public std::runtime_error {
 public:
  Exit(int status, const std::string& why = "") : std::runtime_error(why), status_(status) {}
  int status() const noexcept { return status_; }

 private:
  int status_;
};

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kInterrupted = 130;

// Replaces closed standard streams by /dev/null, so that nothing of the bus gets their numbers.
void take_over_streams();

// Text for standard output, until flush().
void print(std::string_view text);
// Writes it. Throws Exit if nobody reads it, or it cannot be written.
void flush();
// Write a line on standard error, the second one with the program's name before it. A line that
// cannot be written is dropped.
void print_line(const std::string& line);
void print_error(const std::string& line);

// A line for a name and a value.
void print_pair(std::string_view name, std::string_view value);

// A table. The columns whose titles begin with '>' are right-aligned.
class Table {
 public:
  explicit Table(std::initializer_list<const char*> titles);
  void add(std::vector<std::string> cells);
  void print() const;

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;  // the first one has the titles
};

}  // namespace tensorbus::cli
