#include "tensorbus/cli/texts.hpp"

#include <algorithm>
#include <array>
#include <clocale>
#include <cstdio>
#include <cwchar>
#include <cwctype>
#include <string>

#include "tensorbus/cli/utf8.hpp"

namespace tensorbus::cli {
namespace {

constexpr const char* kNothing = "-";

// Returns the number with so many digits after the point.
std::string fixed(double number, int digits) {
  std::array<char, 400> text{};
  const int size = std::snprintf(text.data(), text.size(), "%.*f", digits, number);
  return {text.data(), std::min(static_cast<std::size_t>(size), text.size() - 1)};
}

// Characters without a shape: they change the direction of text, or join what is beside them.
bool is_format(char32_t code) {
  return code == 0xad || (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2060 && code <= 0x206f) || code == 0xfeff ||
         (code >= 0xe0000 && code <= 0xe0fff);
}

bool is_printable(const Character& character) {
  // main() has set a locale of UTF-8, in which wchar_t is a character.
  return character.valid && !is_format(character.code) &&
         (character.code == ' ' || !std::iswspace(static_cast<wint_t>(character.code))) &&
         std::iswprint(static_cast<wint_t>(character.code)) != 0;
}

std::string named(const std::string& program, std::uint32_t pid, const Id& participant) {
  const std::string number = pid != 0 ? std::to_string(pid) : participant.hex().substr(0, 8);
  const std::string name = shown(program);
  return (name.empty() ? "?" : name) + " (" + number + ')';
}

}  // namespace

std::string rate_text(double per_second) {
  return fixed(per_second, per_second == 0 || per_second >= 1000 ? 0 : 1);
}

std::string bytes_text(double count) {
  if (count < 1024) return fixed(count, 0) + " B";
  for (const char* unit : {" KiB", " MiB", " GiB"}) {
    count /= 1024;
    if (count < 1024) return fixed(count, 1) + unit;
  }
  return fixed(count / 1024, 1) + " TiB";
}

std::string bandwidth_text(double bytes_per_second) { return bytes_text(bytes_per_second) + "/s"; }

std::string time_text(std::chrono::nanoseconds time) {
  const double seconds = std::chrono::duration<double>(time).count();
  if (time.count() <= 0) return kNothing;
  if (seconds < 1) return fixed(seconds * 1000, 0) + " ms";
  if (seconds < 60) return fixed(seconds, 1) + " s";
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(time).count();
  const double rest = seconds - 60.0 * static_cast<double>(minutes);
  if (minutes < 60) return std::to_string(minutes) + " min " + fixed(rest, 0) + " s";
  return std::to_string(minutes / 60) + " h " + std::to_string(minutes % 60) + " min";
}

std::string part_text(std::uint64_t part, std::uint64_t whole) {
  return std::to_string(part) + (whole != 0 ? "/" + std::to_string(whole) : "");
}

std::string shown(std::string_view text) {
  std::string made;
  while (!text.empty()) {
    const Character character = first_character(text);
    made.append(is_printable(character) ? character.bytes : "?");
    text.remove_prefix(character.bytes.size());
  }
  return made;
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    const int width = character.valid ? wcwidth(static_cast<wchar_t>(character.code)) : 1;
    columns += static_cast<std::size_t>(std::max(width, 0));
    text.remove_prefix(character.bytes.size());
  }
  return columns;
}

std::string process_name(const PeerName& process) {
  return named(process.process, process.pid, process.participant);
}

std::string process_name(const ParticipantReport& process) {
  return named(process.process, process.pid, process.participant);
}

}  // namespace tensorbus::cli
