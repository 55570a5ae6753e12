// Names in the domain directory: any process of this user can make a file there.

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "fuzz/fuzz.hpp"
#include "tensorbus/bus/domain/topic_name.hpp"

namespace tensorbus::fuzz {
namespace {

constexpr std::size_t kMaxOfAFileName = 255;

void parse(std::string_view name) {
  const std::optional<Id> owner = bus::owner_of_file(name);
  const std::optional<bus::Marker> marker = bus::parse_marker(name);
  if (bus::is_socket_name(name)) check(owner && name == bus::socket_name(*owner) && !marker);
  if (!marker) return;
  check(owner == marker->participant && !marker->escaped_topic.empty());
  check(marker->escaped_topic.data() == name.data());
  const std::string again =
      bus::marker_name(std::string(marker->escaped_topic), marker->participant, marker->publisher);
  // Leading zeros of a number are accepted, and never written.
  check(again.size() <= name.size());
  const std::optional<bus::Marker> same = bus::parse_marker(again);
  check(same && same->escaped_topic == marker->escaped_topic &&
        same->participant == marker->participant && same->publisher == marker->publisher);
}

// Returns the topic of an escaped name that was not cut.
std::string unescaped(std::string_view escaped) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string topic;
  for (std::size_t i = 0; i < escaped.size(); ++i) {
    if (escaped[i] != '%') {
      topic += escaped[i];
      continue;
    }
    check(i + 2 < escaped.size());
    const auto high = kDigits.find(escaped[i + 1]);
    const auto low = kDigits.find(escaped[i + 2]);
    check(high != kDigits.npos && low != kDigits.npos);
    topic += static_cast<char>(high << 4 | low);
    i += 2;
  }
  return topic;
}

void escape(std::string_view topic) {
  std::string escaped;
  const bool fits = !topic.empty() && topic.size() <= 2048;
  check(accepts([&] { escaped = bus::escape_topic(topic); }, Code::kInvalidArgument) == fits);
  if (!fits) return;
  check(escaped[0] != '.' && escaped.find_first_of(std::string_view("/@\0", 3)) == escaped.npos);
  check(std::ranges::all_of(escaped, [](char c) { return c > ' ' && c < 0x7f; }));
  if (escaped.find('~') == escaped.npos) check(unescaped(escaped) == topic);
  const Id id{{1, 2, 3}};
  const std::string name = bus::marker_name(escaped, id, 0xffffffff);
  check(name.size() <= kMaxOfAFileName);
  const std::optional<bus::Marker> marker = bus::parse_marker(name);
  check(marker && marker->escaped_topic == escaped && marker->participant == id &&
        marker->publisher == 0xffffffff);
}

}  // namespace
}  // namespace tensorbus::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = tensorbus::fuzz::Input(data, size).rest();
  tensorbus::fuzz::parse(tensorbus::fuzz::text_of(bytes));
  tensorbus::fuzz::escape(tensorbus::fuzz::text_of(bytes));
  return 0;
}
