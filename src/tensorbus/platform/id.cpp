#include "tensorbus/platform/id.hpp"

#include <sys/random.h>

#include <cerrno>

#include "tensorbus/platform/error.hpp"

namespace tensorbus {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

}  // namespace

Id Id::random() {
  Id id;
  // Requests of up to 256 bytes are never cut short once the pool is ready (getrandom(2)).
  while (::getrandom(id.bytes.data(), id.bytes.size(), 0) < 0)
    if (errno != EINTR) throw_system("getrandom", errno);
  return id;
}

std::optional<Id> Id::parse(std::string_view hex) noexcept {
  if (hex.size() != 32) return std::nullopt;
  Id id;
  for (std::size_t i = 0; i < hex.size(); ++i) {
    const auto digit = kHexDigits.find(hex[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    id.bytes[i / 2] = static_cast<std::uint8_t>(id.bytes[i / 2] << 4 | digit);
  }
  return id;
}

std::string Id::hex() const {
  std::string text;
  text.reserve(32);
  for (const std::uint8_t byte : bytes) {
    text += kHexDigits[byte >> 4];
    text += kHexDigits[byte & 15];
  }
  return text;
}

}  // namespace tensorbus
