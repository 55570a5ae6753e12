#include "settings.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace standin {
namespace {

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// As the driver reads it: the first number that names no device ends the list.
std::vector<int> visible_devices(int count) {
  std::vector<int> visible;
  if (std::getenv("CUDA_VISIBLE_DEVICES") == nullptr) {
    for (int number = 0; number < count; ++number) visible.push_back(number);
    return visible;
  }
  for (const std::string& part : split(variable("CUDA_VISIBLE_DEVICES", ""), ',')) {
    char* end = nullptr;
    const long number = std::strtol(part.c_str(), &end, 10);
    if (end == part.c_str() || *end != '\0' || number < 0 || number >= count) break;
    if (std::ranges::find(visible, number) != visible.end()) return {};
    visible.push_back(static_cast<int>(number));
  }
  return visible;
}

std::map<std::string, Failure> wanted_failures() {
  std::map<std::string, Failure> failures;
  for (const std::string& entry : split(variable("STANDIN_FAIL", ""), ',')) {
    const std::vector<std::string> parts = split(entry, ':');
    if (parts.size() != 3) std::abort();
    failures[parts[0]] = {std::stoi(parts[1]), std::stoi(parts[2])};
  }
  return failures;
}

}  // namespace

Settings read_settings() {
  Settings settings;
  settings.physical = visible_devices(std::stoi(variable("STANDIN_DEVICES", "2")));
  for (const std::string& feature : split(variable("STANDIN_WITHOUT", ""), ','))
    settings.without.insert(feature);
  settings.memory_bytes = std::stoull(variable("STANDIN_MEMORY", "1073741824"));
  settings.failures = wanted_failures();
  return settings;
}

}  // namespace standin
