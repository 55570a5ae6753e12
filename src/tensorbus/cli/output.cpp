#include "tensorbus/cli/output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "tensorbus/cli/texts.hpp"

namespace tensorbus::cli {
namespace {

std::string& unwritten() {
  static std::string text;
  return text;
}

// Returns 0, or the number of the error.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written >= 0)
      text.remove_prefix(static_cast<std::size_t>(written));
    else if (errno != EINTR)
      return errno;
  }
  return 0;
}

bool is_styled() {
  const char* const terminal = std::getenv("TERM");
  const char* const plain = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) != 0 && (plain == nullptr || *plain == '\0') &&
         terminal != nullptr && std::string_view(terminal) != "dumb";
}

}  // namespace

void take_over_streams() {
  constexpr std::array<std::pair<int, int>, 3> kStreams{
      {{0, O_RDONLY}, {1, O_RDONLY}, {2, O_WRONLY}}};
  for (const auto& [number, mode] : kStreams)
    if (::fcntl(number, F_GETFD) < 0)
      (void)::open("/dev/null", mode);  // gets the lowest free number, which is `number`
}

void print(std::string_view text) { unwritten().append(text); }

void flush() {
  const std::string text = std::exchange(unwritten(), {});
  const int error = write_all(STDOUT_FILENO, text);
  if (error == EPIPE) throw Exit(kFailed);  // as in `tensorbus topic list | head -1`
  if (error != 0)
    throw Exit(kFailed, "[Errno " + std::to_string(error) + "] " +
                            std::generic_category().message(error) + ": 'standard output'");
}

void print_line(const std::string& line) { (void)write_all(STDERR_FILENO, line + '\n'); }

void print_error(const std::string& line) { print_line("tensorbus: " + line); }

void print_pair(std::string_view name, std::string_view value) {
  print(std::string(name) + ": " + shown(value) + '\n');
}

Table::Table(std::initializer_list<const char*> titles) : rows_(1) {
  for (const std::string_view title : titles) {
    right_.push_back(title.starts_with('>'));
    rows_.front().emplace_back(title.substr(right_.back() ? 1 : 0));
  }
}

void Table::add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = shown(cell);
  rows_.push_back(std::move(cells));
}

void Table::print() const {
  std::vector<std::size_t> widths(right_.size());
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], columns_of(row[i]));
  const bool styled = is_styled();
  for (const auto& row : rows_) {
    const bool is_title = &row == &rows_.front();
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - columns_of(row[i]), ' ');
      const std::string cell = styled && is_title ? "\x1b[1m" + row[i] + "\x1b[0m" : row[i];
      line += (i == 0 ? "" : "  ") + (right_[i] ? space + cell : cell + space);
    }
    cli::print(line + '\n');
  }
}

}  // namespace tensorbus::cli
