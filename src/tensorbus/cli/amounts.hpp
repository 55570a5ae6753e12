#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

// Arguments with units. Each throws CLI::ValidationError with the name of the option.
namespace tensorbus::cli {

std::uint64_t bytes_in(const std::string& option, const std::string& text);  // "500M", "2GiB"
std::chrono::nanoseconds seconds_in(const std::string& option, const std::string& text);  // "10m"

// What to compress, and how: of a recorder, or of a copy of a recording.
struct Compressions {
  std::string all;                            // "zstd", "lz4" or "none"; "": as before
  std::map<std::string, std::string> topics;  // the same for single topics
};
Compressions compressions_in(const std::vector<std::string>& texts);  // "zstd", or "TOPIC=zstd"

}  // namespace tensorbus::cli
