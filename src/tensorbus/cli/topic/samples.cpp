#include "tensorbus/cli/topic/samples.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

#include "tensorbus/cli/commands.hpp"

namespace tensorbus::cli {

std::chrono::nanoseconds age_of(const SampleHeader& header) {
  const std::chrono::nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
  // Unsigned: another process has chosen the time of the sample.
  const auto age = static_cast<std::uint64_t>(now.count()) - header.timestamp_ns;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(age));
}

std::string age_text(std::chrono::nanoseconds age) {
  const double milliseconds = std::max(std::chrono::duration<double, std::milli>(age).count(), 0.0);
  const bool is_short = milliseconds < 1000;
  std::array<char, 48> text{};
  (void)std::snprintf(text.data(), text.size(), is_short ? "%.1f ms" : "%.1f s",
                      is_short ? milliseconds : milliseconds / 1000);
  return text.data();
}

std::string publisher_name(const SampleHeader& header) {
  return header.publisher.hex() + '.' + std::to_string(header.publisher_number);
}

std::chrono::nanoseconds timeout_of(std::optional<double> seconds) {
  return seconds ? nanoseconds_in(*seconds) : std::chrono::nanoseconds::max();
}

}  // namespace tensorbus::cli
