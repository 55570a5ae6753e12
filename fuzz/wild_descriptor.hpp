#pragma once

// Descriptors that are nearly valid, as random bytes seldom are.

#include <array>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "tensorbus/device/memory/device_memory.hpp"

namespace tensorbus::fuzz {

// The segments that they refer to; the last one never exists.
inline constexpr std::array<std::uint32_t, 4> kWildSegments = {0, 1, 7, 99};

class WildDescriptor {
 public:
  explicit WildDescriptor(Input& input, bool may_hand_on) : input_(input) {
    const std::uint32_t tensors = input_.below(5);
    const std::uint32_t more = input_.below(8);
    const bool origin = more == 7;
    const bool handed_on = may_hand_on && more >= 5 && !origin;
    const std::uint8_t field_bytes = input_.byte() % 64;
    put(std::uint8_t{1});
    put(static_cast<std::uint8_t>(handed_on ? 2 : origin));
    put(static_cast<std::uint16_t>(tensors));
    put(std::uint32_t{field_bytes});
    if (origin) bytes_.resize(bytes_.size() + 40);
    if (handed_on) owners(tensors);
    for (std::uint32_t i = 0; i < tensors; ++i) tensor();
    const auto fields = input_.bytes(field_bytes);
    bytes_.insert(bytes_.end(), fields.begin(), fields.end());
    bytes_.resize(bytes_.size() + field_bytes - fields.size());
    for (std::uint32_t i = input_.below(8); i >= 6; --i) {  // and changes a byte or two
      const std::size_t at = input_.take<std::uint16_t>() % bytes_.size();
      bytes_[at] = std::byte{input_.byte()};
    }
  }

  std::vector<std::byte> bytes() && { return std::move(bytes_); }

 private:
  void owners(std::uint32_t tensors) {
    const std::uint16_t count = input_.byte() % 3;
    put(count);
    for (std::uint16_t i = 0; i < count; ++i) {
      put(std::uint64_t{input_.byte()});
      put(std::uint64_t{0});
    }
    for (std::uint32_t i = 0; i < tensors; ++i) put(static_cast<std::uint16_t>(input_.byte() % 4));
  }
  void tensor() {
    const std::uint8_t dims = input_.byte() % 5;
    const bool contiguous = input_.flag();
    put(static_cast<std::uint8_t>(1 + input_.byte() % 48));  // dtype
    put(dims);
    const bool on_device = input_.byte() >= 0xf0;
    put(static_cast<std::uint8_t>(on_device ? 1 : 0));
    put(static_cast<std::uint8_t>((input_.byte() & 0x7e) | (contiguous ? 1 : 0)));
    if (on_device)
      put(memory::SegmentId::device(0, input_.below(2)));
    else
      put(kWildSegments[input_.byte() % 16 < 15 ? input_.below(3) : 3]);
    put(input_.number());
    put(input_.number());
    for (std::uint8_t i = 0; i < dims; ++i) put(input_.number());
    for (std::uint8_t i = 0; i < dims && !contiguous; ++i)
      put(input_.flag() ? std::uint64_t{0} - input_.number() : input_.number());
  }
  template <typename T>
  void put(const T& value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), from, from + sizeof value);
  }

  Input& input_;
  std::vector<std::byte> bytes_;
};

inline std::vector<std::byte> wild_descriptor(Input& input, bool may_hand_on = false) {
  return WildDescriptor(input, may_hand_on).bytes();
}

}  // namespace tensorbus::fuzz
