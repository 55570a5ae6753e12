#include "tensorbus/tensor/mcap/crc32.hpp"

#include <array>
#include <cstring>

namespace tensorbus::tensor::mcap {
namespace {

constexpr std::size_t kSlices = 8;  // bytes at a time
using Tables = std::array<std::array<std::uint32_t, 256>, kSlices>;

// Table 0 is for one byte; table n for one byte followed by n zero bytes.
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xEDB88320U : 0);
    tables[0][byte] = value;
  }
  for (std::size_t slice = 1; slice < kSlices; ++slice)
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t shorter = tables[slice - 1][byte];
      tables[slice][byte] = shorter >> 8 ^ tables[0][shorter & 0xFF];
    }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
  std::uint32_t value = ~before;
  for (; bytes.size() >= kSlices; bytes = bytes.subspan(kSlices)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    word ^= value;
    value = 0;
    for (std::size_t i = 0; i < kSlices; ++i)
      value ^= kTables[kSlices - 1 - i][word >> (8 * i) & 0xFF];
  }
  for (const std::byte byte : bytes)
    value = value >> 8 ^ kTables[0][(value ^ static_cast<std::uint32_t>(byte)) & 0xFF];
  return ~value;
}

}  // namespace tensorbus::tensor::mcap
