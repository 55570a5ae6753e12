#include "tensorbus/platform/signal_message.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

namespace tensorbus::platform {
namespace {

constexpr std::string_view kCut = "...";
constexpr std::size_t kNameBytes = 200;

// How many bytes at the start of `text` are one character that a terminal can be given: 0 for
// control characters (also those of C1, U+0080 to U+009F) and for what is not UTF-8 (Unicode 15,
// table 3-7).
std::size_t printable_bytes(std::string_view text) noexcept {
  const auto at = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7F ? 1 : 0;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t bytes = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i)
    if ((at(i) & 0xC0) != 0x80) return 0;
  const unsigned char second = at(1);
  const bool refused = (first == 0xC2 && second < 0xA0) ||   // C1
                       (first == 0xE0 && second < 0xA0) ||   // overlong
                       (first == 0xED && second >= 0xA0) ||  // surrogates
                       (first == 0xF0 && second < 0x90) ||   // overlong
                       (first == 0xF4 && second >= 0x90);    // above U+10FFFF
  return refused ? 0 : bytes;
}

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
  // Nobody to tell of a failure.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text_.data(), used_);
}

}  // namespace tensorbus::platform
