#include "tensorbus/bus/domain/topic_name.hpp"

#include <array>
#include <charconv>
#include <cstdio>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::size_t kMaxTopicBytes = 2048;
constexpr std::size_t kMaxEscaped = 160;
constexpr std::size_t kKeptPrefix = 120;
constexpr std::string_view kSocketSuffix = ".sock";
constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr std::string_view kMarkerSuffix = ".pub";

bool stands_for_itself(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

__extension__ using Uint128 = unsigned __int128;  // all supported compilers have it

bool take_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

}  // namespace

// FNV-1a, 128 bits: http://www.isthe.com/chongo/tech/comp/fnv/
std::string hash_hex(std::string_view text) {
  Uint128 hash = (static_cast<Uint128>(0x6c62272e07bb0142ULL) << 64) | 0x62b821756295c58dULL;
  const Uint128 prime = (static_cast<Uint128>(1) << 88) | 0x13b;
  for (const char c : text) {
    hash ^= static_cast<std::uint8_t>(c);
    hash *= prime;
  }
  std::array<char, 33> hex{};
  std::snprintf(hex.data(), hex.size(), "%016llx%016llx",
                static_cast<unsigned long long>(hash >> 64), static_cast<unsigned long long>(hash));
  return hex.data();
}

std::string escape_topic(std::string_view topic) {
  if (topic.empty()) throw Error(Code::kInvalidArgument, "a topic name must not be empty");
  if (topic.size() > kMaxTopicBytes)
    throw Error(Code::kInvalidArgument, "a topic name of " + std::to_string(topic.size()) +
                                            " bytes; at most 2048 are possible");
  std::string escaped;
  for (const char c : topic) {
    if (stands_for_itself(c) && !(c == '.' && escaped.empty())) {
      escaped += c;
    } else {
      std::array<char, 4> hex{};
      std::snprintf(hex.data(), hex.size(), "%%%02X", static_cast<std::uint8_t>(c));
      escaped += hex.data();
    }
  }
  if (escaped.size() <= kMaxEscaped) return escaped;
  return escaped.substr(0, kKeptPrefix) + "~" + hash_hex(topic);
}

std::string socket_name(const Id& participant) {
  return participant.hex() + std::string(kSocketSuffix);
}

std::string temporary_socket_name(const Id& participant) {
  return "." + participant.hex() + std::string(kTemporarySuffix);
}

std::string marker_name(const std::string& escaped_topic, const Id& participant,
                        std::uint32_t publisher) {
  return escaped_topic + "@" + to_string({participant, publisher}) + std::string(kMarkerSuffix);
}

std::string to_string(const PublisherName& name) {
  return name.first.hex() + "." + std::to_string(name.second);
}

std::optional<PublisherName> parse_publisher_name(std::string_view text) {
  const auto dot = text.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto participant = Id::parse(text.substr(0, dot));
  std::uint32_t number = 0;
  const std::string_view digits = text.substr(dot + 1);
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (!participant || parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size())
    return std::nullopt;
  return PublisherName{*participant, number};
}

std::optional<Marker> parse_marker(std::string_view file_name) {
  if (!take_suffix(file_name, kMarkerSuffix)) return std::nullopt;
  const auto at = file_name.rfind('@');
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  const auto publisher = parse_publisher_name(file_name.substr(at + 1));
  if (!publisher) return std::nullopt;
  return Marker{file_name.substr(0, at), publisher->first, publisher->second};
}

bool is_socket_name(std::string_view file_name) {
  return take_suffix(file_name, kSocketSuffix) && Id::parse(file_name).has_value();
}

std::optional<Id> owner_of_file(std::string_view file_name) {
  if (const auto marker = parse_marker(file_name)) return marker->participant;
  if (take_suffix(file_name, kSocketSuffix)) return Id::parse(file_name);
  if (!file_name.starts_with('.')) return std::nullopt;
  file_name.remove_prefix(1);  // so that ".tmp" is not taken for a dot and a suffix
  if (take_suffix(file_name, kTemporarySuffix)) return Id::parse(file_name);
  return std::nullopt;
}

}  // namespace tensorbus::bus
