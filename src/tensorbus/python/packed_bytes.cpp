#include "tensorbus/python/packed_bytes.hpp"

#include <cstdint>
#include <limits>
#include <string>

namespace tensorbus::python {
namespace {

// Bin 8, 16 and 32: the size follows the first byte in 1, 2 or 4 bytes, big-endian.
constexpr std::uint8_t kFirst = 0xc4;
constexpr int kKinds = 3;

constexpr std::size_t size_bytes(int kind) { return std::size_t{1} << kind; }

}  // namespace

std::vector<std::byte> pack_bytes(nb::bytes bytes) {
  const std::size_t size = bytes.size();
  if (size > std::numeric_limits<std::uint32_t>::max())
    throw Error(Code::kUnsupported,
                "data: " + std::to_string(size) +
                    " bytes; at most 4 GiB are possible. Send a tensor of them");
  const int kind = size <= 0xff ? 0 : size <= 0xffff ? 1 : 2;
  std::vector<std::byte> packed;
  packed.reserve(1 + size_bytes(kind) + size);
  packed.push_back(static_cast<std::byte>(kFirst + kind));
  for (std::size_t i = size_bytes(kind); i-- > 0;)
    packed.push_back(static_cast<std::byte>(size >> (8 * i)));
  const auto* const data = static_cast<const std::byte*>(bytes.data());
  packed.insert(packed.end(), data, data + size);
  return packed;
}

std::optional<std::span<const std::byte>> unpack_bytes(std::span<const std::byte> fields) {
  if (fields.empty()) return std::nullopt;
  const int kind = static_cast<int>(fields.front()) - kFirst;
  if (kind < 0 || kind >= kKinds) return std::nullopt;
  const std::size_t header = 1 + size_bytes(kind);
  if (fields.size() < header) return std::nullopt;
  std::size_t size = 0;
  for (const std::byte digit : fields.subspan(1, size_bytes(kind)))
    size = size << 8 | static_cast<std::size_t>(digit);
  const auto bytes = fields.subspan(header);
  return bytes.size() == size ? std::optional(bytes) : std::nullopt;
}

}  // namespace tensorbus::python
