#include "tensorbus/cli/amounts.hpp"

#include <CLI/CLI.hpp>
#include <cctype>
#include <cmath>
#include <system_error>

#include "tensorbus/cli/decimals.hpp"

namespace tensorbus::cli {
namespace {

std::string without_spaces(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? ""
                                    : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

std::string without_end(const std::string& text, const std::string& end) {
  return text.ends_with(end) ? text.substr(0, text.size() - end.size()) : text;
}

}  // namespace

std::uint64_t bytes_in(const std::string& option, const std::string& text) {
  std::string number;
  for (const unsigned char each : without_spaces(text))
    number += static_cast<char>(std::toupper(each));
  number = without_end(without_end(number, "IB"), "B");
  const std::string units = "KMGT";
  const std::size_t unit = number.empty() ? std::string::npos : units.find(number.back());
  if (unit != std::string::npos) number.pop_back();
  const double factor = unit == std::string::npos ? 1 : std::exp2(10 * (unit + 1));
  const double count = decimal_in(number) * factor;
  if (count >= 1 && count < 0x1p63) return static_cast<std::uint64_t>(count);
  throw CLI::ValidationError(option, "'" + text + "': expected bytes, as in 500M or 2G");
}

std::chrono::nanoseconds seconds_in(const std::string& option, const std::string& text) {
  std::string number = without_spaces(text);
  const bool is_minutes = number.ends_with('m');
  if (is_minutes || number.ends_with('s')) number.pop_back();
  const double seconds = decimal_in(number) * (is_minutes ? 60 : 1);
  if (seconds > 0 && seconds <= 1e9)
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(seconds));
  throw CLI::ValidationError(option, "'" + text + "': expected seconds, as in 30s or 2m");
}

Compressions compressions_in(const std::vector<std::string>& texts) {
  Compressions found;
  for (const std::string& text : texts) {
    const std::size_t equals = text.rfind('=');
    const bool is_for_all = equals == std::string::npos;
    const std::string how = is_for_all ? text : text.substr(equals + 1);
    if (how != "zstd" && how != "lz4" && how != "none")
      throw CLI::ValidationError("--compress", "'" + how + "': expected zstd, lz4 or none");
    if (is_for_all && texts.size() == 1)
      found.all = how;
    else if (is_for_all || equals == 0)
      throw CLI::ValidationError("--compress", "'" + text + "': expected TOPIC=zstd or TOPIC=lz4");
    else
      found.topics[text.substr(0, equals)] = how;
  }
  return found;
}

}  // namespace tensorbus::cli
