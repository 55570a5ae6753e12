#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tensorbus/recording.hpp>
#include <vector>

namespace tensorbus::cli {

// Opens a recording. Throws Exit for a file that cannot be opened, or is no recording: that is no
// wrong command line.
Recording opened(const std::string& path);
// Throws Exit unless the recording has each of these topics.
void require_topics(const std::string& path, const Recording& recording,
                    const std::vector<std::string>& topics);

// Times in ns since 1970: from `begin_ns` to before `end_ns`.
struct TimeSpan {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = UINT64_MAX;
};
// Returns the times of `--start` and `--end`, in seconds after the first message.
TimeSpan time_span(const Recording& recording, double start, std::optional<double> end);

}  // namespace tensorbus::cli
