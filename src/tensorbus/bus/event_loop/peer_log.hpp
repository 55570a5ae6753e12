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

// Logs events with other participants. Each line names the topic, if it concerns one, and the
// process. Writes the same line at most once in ten seconds, and at most 32 lines in that time; a
// later line reports the number of omitted lines. Used only on the event loop.
class PeerLog {
 public:
  // `pid`: in the pid namespace of this process; 0: a process of another pid namespace; kNoProcess:
  // none. Writes only the first line of `text`. Without memory for the line, writes nothing.
  static constexpr pid_t kNoProcess = -1;
  void write(platform::LogLevel level, std::string_view topic, pid_t pid,
             std::initializer_list<std::string_view> text) noexcept;

 private:
  void write_line(platform::LogLevel level, const std::string& line);

  using Clock = std::chrono::steady_clock;
  Clock::time_point until_{};
  std::set<std::string> written_;  // in the interval that ends at until_
  std::size_t left_out_ = 0;
};

}  // namespace tensorbus::bus
