#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tensorbus/internal/pack_cursor.hpp>
#include <tensorbus/internal/pack_format.hpp>
#include <tensorbus/values/error.hpp>
#include <tensorbus/values/value.hpp>
#include <utility>

namespace tensorbus::inline v0 {
namespace internal {

class PackWriter {
 public:
  explicit PackWriter(int depth = 0) : depth_(depth) {}
  void write(const Value& value) {
    std::visit([this](const auto& alternative) { put(alternative); }, value.variant());
  }
  // Writes the header of a map; the caller writes the items, each after its key.
  void write_map_of(std::size_t items) {
    if (items < 16)
      byte(static_cast<std::uint8_t>(0x80 | items));
    else
      header(0xde, 0xdf, items);
  }
  // Writes the header of a list; the caller writes the items.
  void write_list_of(std::size_t items) {
    if (items < 16)
      byte(static_cast<std::uint8_t>(0x90 | items));
    else
      header(0xdc, 0xdd, items);
  }
  void write(std::string_view text) { put(text); }
  void write(std::span<const std::byte> bytes) { put(bytes); }
  void write(Value::TensorIndex tensor) { put(tensor); }
  void write_nil() { put(nullptr); }
  void write_bool(bool value) { put(value); }
  void write_signed(std::int64_t value) { put(value); }
  void write_unsigned(std::uint64_t value) { put(value); }
  void write_float(double value) { put(value); }
  // Appends packed values.
  void append(std::span<const std::byte> packed) { raw(packed.data(), packed.size()); }
  // Makes everything written since size `begin` the payload of an extension.
  void wrap(std::size_t begin, std::int8_t type) {
    const auto payload = bytes_.begin() + static_cast<std::ptrdiff_t>(begin);
    PackWriter head;
    head.extension_head(type, static_cast<std::size_t>(bytes_.end() - payload));
    bytes_.insert(payload, head.bytes_.begin(), head.bytes_.end());
  }
  std::size_t size() const noexcept { return bytes_.size(); }
  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void put(std::nullptr_t) { byte(0xc0); }
  void put(bool value) { byte(value ? 0xc3 : 0xc2); }
  void put(std::int64_t value) {
    if (value >= 0) return put(static_cast<std::uint64_t>(value));
    if (value >= -32) return byte(static_cast<std::uint8_t>(value));
    // The smallest of int8 (0xd0) to int64 (0xd3): one bit is the sign.
    const int size = size_class(static_cast<std::uint64_t>(-(value + 1)) << 1);
    byte(static_cast<std::uint8_t>(0xd0 + size));
    big_endian(static_cast<std::uint64_t>(value), 1 << size);
  }
  void put(std::uint64_t value) {
    if (value < 128) return byte(static_cast<std::uint8_t>(value));
    const int size = size_class(value);  // uint8 (0xcc) to uint64 (0xcf)
    byte(static_cast<std::uint8_t>(0xcc + size));
    big_endian(value, 1 << size);
  }
  void put(double value) {
    byte(0xcb);
    big_endian(bits_as<std::uint64_t>(value), 8);
  }
  void put(std::string_view value) {
    if (value.size() < 32)
      byte(static_cast<std::uint8_t>(0xa0 | value.size()));
    else
      header(0xd9, 0xda, 0xdb, value.size());
    raw(value.data(), value.size());
  }
  void put(std::span<const std::byte> value) {
    header(0xc4, 0xc5, 0xc6, value.size());
    raw(value.data(), value.size());
  }
  void put(const Value::List& value) {
    const Nesting nesting(depth_, Code::kInvalidArgument);
    write_list_of(value.size());
    for (const Value& item : value) write(item);
  }
  void put(const Value::Map& value) {
    const Nesting nesting(depth_, Code::kInvalidArgument);
    write_map_of(value.size());
    for (const auto& [key, item] : value) {
      write(key);
      write(item);
    }
  }
  void put(const Value::Tuple& value) {
    const Nesting nesting(depth_, Code::kInvalidArgument);
    PackWriter inner(depth_);
    inner.put(value.items);
    put(Value::Extension{kTupleType, inner.take()});
  }
  void put(Value::TensorIndex value) { extension(kTensorType, &value.index, sizeof value.index); }
  void put(const Value::Extension& value) {
    extension(value.type, value.bytes.data(), value.bytes.size());
  }

  void extension(std::int8_t type, const void* data, std::size_t count) {
    extension_head(type, count);
    raw(data, count);
  }
  void extension_head(std::int8_t type, std::size_t count) {
    if (std::has_single_bit(count) && count <= 16)  // fixext 1 to 16
      byte(static_cast<std::uint8_t>(0xd4 + std::countr_zero(count)));
    else
      header(0xc7, 0xc8, 0xc9, count);
    byte(static_cast<std::uint8_t>(type));
  }

  // Returns 0, 1, 2, 3 for a number of at most 1, 2, 4, 8 bytes.
  static int size_class(std::uint64_t value) {
    return value <= 0xff ? 0 : value <= 0xffff ? 1 : value <= 0xffffffff ? 2 : 3;
  }
  void byte(std::uint8_t value) { bytes_.push_back(std::byte{value}); }
  void raw(const void* data, std::size_t count) {
    const auto* from = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), from, from + count);
  }
  void big_endian(std::uint64_t value, int count) {
    for (int i = count; i-- > 0;) byte(static_cast<std::uint8_t>(value >> (8 * i)));
  }
  void header(std::uint8_t with16, std::uint8_t with32, std::size_t count) {
    if (count > std::numeric_limits<std::uint32_t>::max())
      throw Error(Code::kInvalidArgument, "fields of more than 4 GiB");
    byte(count <= 0xffff ? with16 : with32);
    big_endian(count, count <= 0xffff ? 2 : 4);
  }
  void header(std::uint8_t with8, std::uint8_t with16, std::uint8_t with32, std::size_t count) {
    if (count > 0xff) return header(with16, with32, count);
    byte(with8);
    big_endian(count, 1);
  }

  std::vector<std::byte> bytes_;
  int depth_;
};

class PackReader {
 public:
  explicit PackReader(std::span<const std::byte> bytes, int depth = 0)
      : rest_(bytes), depth_(depth) {}

  Value read_whole() {
    Value value = read();
    if (!rest_.empty()) refuse("bytes after the value");
    return value;
  }

 private:
  [[noreturn]] static void refuse(const char* why) {
    throw Error(Code::kProtocol, std::string("sample.fields: ") + why);
  }

  Value read() {
    const auto head = static_cast<std::uint8_t>(take(1)[0]);
    if (head < 0x80) return std::int64_t{head};
    if (head < 0x90) return read_map(head & 0x0fU);
    if (head < 0xa0) return read_list(head & 0x0fU);
    if (head < 0xc0) return read_string(head & 0x1fU);
    if (head >= 0xe0) return std::int64_t{static_cast<std::int8_t>(head)};
    switch (head) {
      case 0xc0:
        return nullptr;
      case 0xc2:
        return false;
      case 0xc3:
        return true;
      case 0xc4:
      case 0xc5:
      case 0xc6:
        return read_bytes(number(1 << (head - 0xc4)));
      case 0xc7:
      case 0xc8:
      case 0xc9:
        return read_extension(number(1 << (head - 0xc7)));
      case 0xca:
        return double{bits_as<float>(static_cast<std::uint32_t>(number(4)))};
      case 0xcb:
        return bits_as<double>(number(8));
      case 0xcc:
      case 0xcd:
      case 0xce:
      case 0xcf:
        return number(1 << (head - 0xcc));
      case 0xd0:
        return std::int64_t{static_cast<std::int8_t>(number(1))};
      case 0xd1:
        return std::int64_t{static_cast<std::int16_t>(number(2))};
      case 0xd2:
        return std::int64_t{static_cast<std::int32_t>(number(4))};
      case 0xd3:
        return static_cast<std::int64_t>(number(8));
      case 0xd4:
      case 0xd5:
      case 0xd6:
      case 0xd7:
      case 0xd8:
        return read_extension(std::uint64_t{1} << (head - 0xd4));
      case 0xd9:
      case 0xda:
      case 0xdb:
        return read_string(number(1 << (head - 0xd9)));
      case 0xdc:
      case 0xdd:
        return read_list(number(2 << (head - 0xdc)));
      case 0xde:
      case 0xdf:
        return read_map(number(2 << (head - 0xde)));
      default:
        refuse("a byte that starts no value");
    }
  }

  Value read_string(std::uint64_t count) {
    const auto part = take(count);
    return std::string(reinterpret_cast<const char*>(part.data()), part.size());
  }
  Value read_bytes(std::uint64_t count) {
    const auto part = take(count);
    return Value::Bytes(part.begin(), part.end());
  }
  Value read_list(std::uint64_t count) {
    const Nesting nesting(depth_, Code::kProtocol);
    if (count > rest_.size()) refuse("a list longer than its bytes");
    Value::List list;
    list.reserve(std::min(count, kMaxReserved));
    for (std::uint64_t i = 0; i < count; ++i) list.push_back(read());
    return list;
  }
  Value read_map(std::uint64_t count) {
    const Nesting nesting(depth_, Code::kProtocol);
    if (count > rest_.size() / 2) refuse("a map longer than its bytes");
    Value::Map map;
    map.reserve(std::min(count, kMaxReserved));
    for (std::uint64_t i = 0; i < count; ++i) {
      Value key = read();
      map.emplace_back(std::move(key), read());
    }
    return map;
  }
  Value read_extension(std::uint64_t count) {
    const auto type = static_cast<std::int8_t>(take(1)[0]);
    const auto part = take(count);
    if (type == kTensorType) {
      Value::TensorIndex tensor;
      if (part.size() != sizeof tensor.index) refuse("a tensor reference that is not 4 bytes");
      std::memcpy(&tensor.index, part.data(), sizeof tensor.index);
      return tensor;
    }
    if (type == kTupleType) {
      const Nesting nesting(depth_, Code::kProtocol);
      const Value items = PackReader(part, depth_).read_whole();
      if (!items.is<Value::List>()) refuse("a tuple that is not a list");
      return Value::Tuple{items.as<Value::List>()};
    }
    return Value::Extension{type, {part.begin(), part.end()}};
  }

  std::uint64_t number(int count) {
    std::uint64_t value = 0;
    for (const std::byte byte : take(static_cast<std::size_t>(count)))
      value = value << 8 | static_cast<std::uint64_t>(byte);
    return value;
  }
  std::span<const std::byte> take(std::uint64_t count) {
    if (count > rest_.size()) refuse("cut short");
    const auto part = rest_.first(count);
    rest_ = rest_.subspan(count);
    return part;
  }

  std::span<const std::byte> rest_;
  int depth_;
};

}  // namespace internal

inline std::vector<std::byte> Value::encode() const {
  internal::PackWriter writer;
  writer.write(*this);
  return writer.take();
}

inline Value Value::decode(std::span<const std::byte> bytes) {
  return internal::PackReader(bytes).read_whole();
}

namespace internal {

inline Value::List record_in(const Value& value) {
  if (!value.is<Value::Extension>() || value.as<Value::Extension>().type != kRecordType) return {};
  Value record = Value::decode(value.as<Value::Extension>().bytes);
  return record.is<Value::List>() ? std::move(record).as<Value::List>() : Value::List{};
}

inline std::optional<std::pair<std::string, Value>> message_in(const Value& value) {
  Value::List parts = record_in(value);
  if (parts.size() != 3 || parts[0] != Value(kMessage) || !parts[1].is<std::string>() ||
      !parts[2].is<Value::Map>())
    return {};
  return std::pair(std::move(parts[1]).as<std::string>(), std::move(parts[2]));
}

}  // namespace internal

}  // namespace tensorbus::inline v0
