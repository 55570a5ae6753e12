#include "tensorbus/bus/domain/advertisement.hpp"

#include <span>
#include <vector>

#include "tensorbus/link/wire/control_fields.hpp"

namespace tensorbus::bus {
namespace {

// The content that an older process writes.
struct OlderAdvertisement {
  Advertisement read{};
  void visit(auto& archive) { archive(read.pid, read.name, read.node, read.definition); }
};

template <typename Content>
std::optional<Content> decoded(std::string_view content) {
  try {
    return link::decode_fields<Content>(std::as_bytes(std::span(content)));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::string encode(const Advertisement& advertisement) {
  const std::vector<std::byte> bytes = link::encode_fields(advertisement);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<Advertisement> decode_advertisement(std::string_view content) {
  if (auto whole = decoded<Advertisement>(content)) return whole;
  if (auto older = decoded<OlderAdvertisement>(content)) return std::move(older->read);
  return std::nullopt;
}

}  // namespace tensorbus::bus
