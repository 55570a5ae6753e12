#pragma once

#include <CLI/CLI.hpp>
#include <set>
#include <string>

namespace tensorbus::cli {

// Adds `hz` and `bw`: rates from the publishers' counters, without subscribing.
void add_rates(CLI::App& topic);

// Returns the machines that publish a topic; "" if only this machine does.
std::string machines_text(const std::set<std::string>& machines);

}  // namespace tensorbus::cli
