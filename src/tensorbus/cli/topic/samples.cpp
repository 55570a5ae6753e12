#include "tensorbus/cli/topic/samples.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace tensorbus::cli {

std::chrono::nanoseconds age_of(const SampleHeader& header) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now) -
         std::chrono::nanoseconds(header.timestamp_ns);
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
  if (!seconds) return std::chrono::nanoseconds::max();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(*seconds));
}

}  // namespace tensorbus::cli
