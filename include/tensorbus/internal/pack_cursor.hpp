#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <tensorbus/internal/pack_format.hpp>

namespace tensorbus::inline v0 {
namespace internal {

// The head of a value. The items of a list or a map follow it.
struct PackToken {
  enum class Kind {
    kNil,
    kBool,
    kUnsigned,
    kSigned,
    kFloat,
    kText,
    kBytes,
    kList,
    kMap,
    kExtension
  };
  Kind kind = Kind::kNil;
  std::int8_t type = 0;      // of an extension
  std::uint64_t number = 0;  // a bool or a number, as bits; or the number of items or pairs
  std::span<const std::byte> part{};  // the text, the bytes or the payload
};

// Reads values of the kinds that the caller expects, without copies: a message that is bytes, or
// tensors by name, needs no Value. The functions return nothing for another kind, or for a value
// that is cut short.
class PackCursor {
 public:
  explicit PackCursor(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::size_t left() const noexcept { return rest_.size(); }
  std::span<const std::byte> rest() const noexcept { return rest_; }
  // Returns the head of a value of any kind. At least as many bytes are left as a container has
  // items.
  std::optional<PackToken> token() noexcept {
    using Kind = PackToken::Kind;
    const auto head = take(1);
    if (!head) return std::nullopt;
    const auto kind = static_cast<unsigned>(head->front());
    if (kind < 0x80) return PackToken{Kind::kUnsigned, 0, kind};
    if (kind < 0x90) return counted(Kind::kMap, kind & 0x0fU);
    if (kind < 0xa0) return counted(Kind::kList, kind & 0x0fU);
    if (kind < 0xc0) return with_part(Kind::kText, kind & 0x1fU);
    if (kind >= 0xe0) return PackToken{Kind::kSigned, 0, sign_extended(kind, 1)};
    switch (kind) {
      case 0xc0:
        return PackToken{Kind::kNil};
      case 0xc2:
      case 0xc3:
        return PackToken{Kind::kBool, 0, kind & 1};
      case 0xc4:
      case 0xc5:
      case 0xc6:
        return with_part(Kind::kBytes, number(std::size_t{1} << (kind - 0xc4)));
      case 0xc7:
      case 0xc8:
      case 0xc9:
        return extension(number(std::size_t{1} << (kind - 0xc7)));
      case 0xca:
        return of_float(number(4));
      case 0xcb:
        return with_number(Kind::kFloat, number(8));
      case 0xcc:
      case 0xcd:
      case 0xce:
      case 0xcf:
        return with_number(Kind::kUnsigned, number(std::size_t{1} << (kind - 0xcc)));
      case 0xd0:
      case 0xd1:
      case 0xd2:
      case 0xd3:
        return signed_of(std::size_t{1} << (kind - 0xd0));
      case 0xd4:
      case 0xd5:
      case 0xd6:
      case 0xd7:
      case 0xd8:
        return extension(std::uint64_t{1} << (kind - 0xd4));
      case 0xd9:
      case 0xda:
      case 0xdb:
        return with_part(Kind::kText, number(std::size_t{1} << (kind - 0xd9)));
      case 0xdc:
      case 0xdd:
        return counted(Kind::kList, number(std::size_t{2} << (kind - 0xdc)));
      case 0xde:
      case 0xdf:
        return counted(Kind::kMap, number(std::size_t{2} << (kind - 0xde)));
      default:
        return std::nullopt;  // invalid
    }
  }
  // Skips a value of any kind. Returns false if it is malformed.
  bool skip() noexcept {
    for (std::uint64_t values = 1; values != 0; --values) {
      const auto next = token();
      if (!next) return false;
      if (next->kind == PackToken::Kind::kList) values += next->number;
      if (next->kind == PackToken::Kind::kMap) values += 2 * next->number;
    }
    return true;
  }
  // Returns the bytes from this cursor to `end`, a copy of this cursor that was moved forward.
  PackCursor without(const PackCursor& end) const noexcept {
    return PackCursor(rest_.first(rest_.size() - end.left()));
  }
  // Returns the number of pairs that follow.
  std::optional<std::size_t> map() noexcept { return count(0x80, 0x90, 0xde, 2); }
  // Returns the number of items that follow.
  std::optional<std::size_t> list() noexcept { return count(0x90, 0xa0, 0xdc, 2); }
  std::optional<std::uint64_t> unsigned_number() noexcept {
    const auto head = take(1);
    if (!head) return std::nullopt;
    const auto kind = static_cast<unsigned>(head->front());
    if (kind < 0x80) return kind;
    if (kind < 0xcc || kind > 0xcf) return std::nullopt;
    return number(std::size_t{1} << (kind - 0xcc));
  }
  std::optional<bool> boolean() noexcept {
    const auto head = take(1);
    if (!head || (head->front() | std::byte{1}) != std::byte{0xc3}) return std::nullopt;
    return head->front() == std::byte{0xc3};
  }
  std::optional<std::string_view> string() noexcept {
    const auto text = take(count(0xa0, 0xc0, 0xd9, 1));
    if (!text) return std::nullopt;
    return std::string_view(reinterpret_cast<const char*>(text->data()), text->size());
  }
  std::optional<std::span<const std::byte>> bytes() noexcept { return take(count(0, 0, 0xc4, 1)); }
  // Reads a tensor index in the form that PackWriter writes.
  std::optional<std::uint32_t> tensor() noexcept {
    std::uint32_t index = 0;
    const auto bytes = take(2 + sizeof index);
    if (!bytes || (*bytes)[0] != std::byte{0xd6} || (*bytes)[1] != std::byte{kTensorType})
      return std::nullopt;
    std::memcpy(&index, bytes->data() + 2, sizeof index);
    return index;
  }

 private:
  // Returns the count at the beginning of a value. If the first byte is at least `least` and below
  // `end`, it contains the count. If it is `first`, the count follows in `bytes` bytes; each next
  // value of the first byte means a count of twice as many bytes, up to 4.
  std::optional<std::size_t> count(unsigned least, unsigned end, unsigned first,
                                   std::size_t bytes) noexcept {
    const auto head = take(1);
    if (!head) return std::nullopt;
    const auto kind = static_cast<unsigned>(head->front());
    if (kind >= least && kind < end) return kind - least;
    for (; bytes <= 4; bytes *= 2, ++first)
      if (kind == first) return number(bytes);
    return std::nullopt;
  }
  static std::uint64_t sign_extended(std::uint64_t value, std::size_t bytes) noexcept {
    const auto unused = 64 - 8 * static_cast<int>(bytes);
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value << unused) >> unused);
  }
  std::optional<PackToken> signed_of(std::size_t bytes) noexcept {
    const auto value = number(bytes);
    if (!value) return std::nullopt;
    return PackToken{PackToken::Kind::kSigned, 0, sign_extended(*value, bytes)};
  }
  static std::optional<PackToken> of_float(std::optional<std::uint64_t> bits) noexcept {
    if (!bits) return std::nullopt;
    const double value{bits_as<float>(static_cast<std::uint32_t>(*bits))};
    return PackToken{PackToken::Kind::kFloat, 0, bits_as<std::uint64_t>(value)};
  }
  static std::optional<PackToken> with_number(PackToken::Kind kind,
                                              std::optional<std::uint64_t> value) noexcept {
    return value ? std::optional(PackToken{kind, 0, *value}) : std::nullopt;
  }
  std::optional<PackToken> counted(PackToken::Kind kind,
                                   std::optional<std::uint64_t> items) const noexcept {
    const std::uint64_t bytes_of_item = kind == PackToken::Kind::kMap ? 2 : 1;
    if (!items || *items > rest_.size() / bytes_of_item) return std::nullopt;
    return PackToken{kind, 0, *items};
  }
  std::optional<PackToken> with_part(PackToken::Kind kind,
                                     std::optional<std::uint64_t> bytes) noexcept {
    const auto part = take(bytes);
    return part ? std::optional(PackToken{kind, 0, 0, *part}) : std::nullopt;
  }
  std::optional<PackToken> extension(std::optional<std::uint64_t> bytes) noexcept {
    const auto type = bytes ? take(1) : std::nullopt;
    const auto part = type ? take(bytes) : std::nullopt;
    if (!part) return std::nullopt;
    return PackToken{PackToken::Kind::kExtension, static_cast<std::int8_t>(type->front()), 0,
                     *part};
  }
  std::optional<std::uint64_t> number(std::size_t bytes) noexcept {
    const auto digits = take(bytes);
    if (!digits) return std::nullopt;
    std::uint64_t value = 0;
    for (const std::byte digit : *digits) value = value << 8 | static_cast<std::uint64_t>(digit);
    return value;
  }
  std::optional<std::span<const std::byte>> take(std::optional<std::size_t> count) noexcept {
    if (!count || *count > rest_.size()) return std::nullopt;
    const auto part = rest_.first(*count);
    rest_ = rest_.subspan(*count);
    return part;
  }

  std::span<const std::byte> rest_;
};

}  // namespace internal
}  // namespace tensorbus::inline v0
