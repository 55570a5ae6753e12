#include "tensorbus/platform/faults/signal_message.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include "tensorbus/platform/utf8.hpp"

namespace tensorbus::platform {
namespace {

constexpr std::string_view kCut = "...";
constexpr std::size_t kNameBytes = 200;

}  // namespace

SignalMessage& SignalMessage::text(std::string_view text) noexcept {
  const std::size_t taken = std::min(text.size(), text_.size() - used_);
  std::memcpy(text_.data() + used_, text.data(), taken);
  used_ += taken;
  return *this;
}

SignalMessage& SignalMessage::name(std::string_view name) noexcept {
  const std::size_t end = used_ + kNameBytes;
  while (!name.empty()) {
    const std::size_t printable = printable_bytes(name);
    const std::size_t taken = std::max<std::size_t>(printable, 1);
    if (used_ + taken > end) return text(kCut);
    text(printable == 0 ? "?" : name.substr(0, printable));
    name.remove_prefix(taken);
  }
  return *this;
}

SignalMessage& SignalMessage::number(std::size_t number) noexcept {
  std::array<char, std::numeric_limits<std::size_t>::digits10 + 1> digits;
  const auto end = std::to_chars(digits.begin(), digits.end(), number).ptr;
  return text({digits.begin(), end});
}

void SignalMessage::write_to_stderr() const noexcept {
  // A failure to write cannot be reported anywhere.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text_.data(), used_);
}

}  // namespace tensorbus::platform
