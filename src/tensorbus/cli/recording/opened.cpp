#include "tensorbus/cli/recording/opened.hpp"

#include <algorithm>
#include <cmath>

#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/texts.hpp"

namespace tensorbus::cli {
namespace {

std::uint64_t after(std::uint64_t begin_ns, double seconds) {
  const double more_ns = std::nearbyint(seconds * 1e9);
  if (more_ns >= static_cast<double>(UINT64_MAX - begin_ns)) return UINT64_MAX;
  return begin_ns + static_cast<std::uint64_t>(more_ns);
}

}  // namespace

Recording opened(const std::string& path) {
  try {
    return Recording(path);
  } catch (const Error& error) {
    throw Exit(kFailed, shown(error.what()));
  }
}

void require_topics(const std::string& path, const Recording& recording,
                    const std::vector<std::string>& topics) {
  const std::vector<RecordedTopic> recorded = recording.topics();
  std::vector<std::string> names;
  for (const RecordedTopic& topic : recorded) names.push_back('\'' + topic.name + '\'');
  for (const std::string& topic : topics)
    if (std::ranges::find(recorded, topic, &RecordedTopic::name) == recorded.end())
      throw Exit(kFailed, shown("file '" + path + "': no topic '" + topic +
                                "'; its topics: " + (names.empty() ? "none" : joined(names))));
}

TimeSpan time_span(const Recording& recording, double start, std::optional<double> end) {
  const std::uint64_t first = recording.size() == 0 ? 0 : recording.time_ns(0);
  TimeSpan span;
  if (start > 0) span.begin_ns = after(first, start);
  if (end) span.end_ns = after(first, *end);
  return span;
}

}  // namespace tensorbus::cli
