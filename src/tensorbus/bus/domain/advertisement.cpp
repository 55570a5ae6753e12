#include "tensorbus/bus/domain/advertisement.hpp"

#include <span>
#include <vector>

#include "tensorbus/link/wire/control_fields.hpp"

namespace tensorbus::bus {

std::string encode(const Advertisement& advertisement) {
  const std::vector<std::byte> bytes = link::encode_fields(advertisement);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<Advertisement> decode_advertisement(std::string_view content) {
  try {
    return link::decode_fields<Advertisement>(std::as_bytes(std::span(content)));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace tensorbus::bus
