#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <tensorbus/values/sample_header.hpp>

namespace tensorbus::cli {

// Add `echo` and `delay`: they subscribe to a topic.
void add_echo(CLI::App& topic);
void add_delay(CLI::App& topic);

// Returns the time since a sample was published.
std::chrono::nanoseconds age_of(const SampleHeader& header);
// Returns a duration in ms or s; 0 for a negative one, of a clock that was set.
std::string age_text(std::chrono::nanoseconds age);
// Returns the name of the publisher on this machine: "<32 hex digits>.<number>".
std::string publisher_name(const SampleHeader& header);
// Returns an option in seconds as a timeout; without it, forever.
std::chrono::nanoseconds timeout_of(std::optional<double> seconds);

}  // namespace tensorbus::cli
