#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <tensorbus/values/inspected.hpp>

// Figures and names as text, for tables. The same texts as those of the Python package
// (_inspection/units.py), which has examples of each.
namespace tensorbus::cli {

std::string rate_text(double per_second);
std::string bytes_text(double count);
std::string bandwidth_text(double bytes_per_second);
std::string time_text(std::chrono::nanoseconds time);            // "-" for 0
std::string part_text(std::uint64_t part, std::uint64_t whole);  // a limit of 0 is none

// Returns text of another process on one line, with "?" for each character that a terminal does not
// show, or that controls it.
std::string shown(std::string_view text);
// Returns the number of columns that text takes on a terminal.
std::size_t columns_of(std::string_view text);

// Returns the process's program and its pid, or its id if the pid is unknown.
std::string process_name(const PeerName& process);
std::string process_name(const ParticipantReport& process);

// Returns the names with ", " between them.
std::string joined(const auto& names) {
  std::string text;
  for (const auto& name : names) text.append(text.empty() ? "" : ", ").append(name);
  return text;
}

}  // namespace tensorbus::cli
