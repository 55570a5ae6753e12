#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>

#include "tensorbus/platform/log.hpp"

namespace tensorbus::bus {

// What happens with other participants, for the log. Each line names the topic, if it is about one,
// and the process. A line is written at most once in ten seconds, and at most 32 lines in that
// time; a later line says how many were left out. On the event loop only.
class PeerLog {
 public:
  // `pid`: as this process sees it; 0: of another pid namespace. Of a text with several lines only
  // the first is written. Without memory for the line there is none.
  static constexpr pid_t kNoProcess = -1;
  void write(platform::LogLevel level, std::string_view topic, pid_t pid,
             std::initializer_list<std::string_view> text) noexcept;

 private:
  void write_line(platform::LogLevel level, std::string line);

  using Clock = std::chrono::steady_clock;
  Clock::time_point until_{};
  std::set<std::string> written_;  // until then
  std::size_t left_out_ = 0;
};

}  // namespace tensorbus::bus
