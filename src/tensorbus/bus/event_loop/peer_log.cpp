#include "tensorbus/bus/event_loop/peer_log.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace tensorbus::bus {
namespace {

using namespace std::chrono_literals;

constexpr auto kInterval = 10s;
constexpr std::size_t kMaxLines = 32;  // in an interval

std::string line_of(std::string_view topic, pid_t pid,
                    std::initializer_list<std::string_view> text) {
  std::string line;
  if (!topic.empty()) line.append("topic \"").append(topic).append("\"");
  if (!topic.empty() && pid != PeerLog::kNoProcess) line += ", ";
  if (pid > 0) line += "process " + std::to_string(pid);
  if (pid == 0) line += "a process of another pid namespace";
  line += ": ";
  for (const std::string_view part : text) line += part;
  line.resize(std::min(line.size(), line.find('\n')));
  const auto is_control = [](unsigned char c) { return c < ' ' || c == '\x7f'; };
  std::ranges::replace_if(line, is_control, '?');
  return line;
}

}  // namespace

void PeerLog::write(platform::LogLevel level, std::string_view topic, pid_t pid,
                    std::initializer_list<std::string_view> text) noexcept {
  try {
    write_line(level, line_of(topic, pid, text));
  } catch (const std::bad_alloc&) {
  }
}

void PeerLog::write_line(platform::LogLevel level, const std::string& line) {
  const auto now = Clock::now();
  if (now >= until_) {
    until_ = now + kInterval;
    written_.clear();
    if (const std::size_t left_out = std::exchange(left_out_, 0); left_out != 0)
      platform::log(
          platform::LogLevel::kWarning,
          (std::to_string(left_out) + " lines about other processes were left out").c_str());
  }
  if (written_.size() == kMaxLines || !written_.insert(line).second)
    ++left_out_;
  else
    platform::log(level, line.c_str());
}

}  // namespace tensorbus::bus
