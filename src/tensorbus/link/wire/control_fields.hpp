#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <tensorbus/values/id.hpp>
#include <utility>
#include <vector>

#include "tensorbus/platform/error.hpp"

// Encodes and decodes the fields of messages, and of other structs with a visit().
namespace tensorbus::link {

namespace internal {

struct AnyArchive {
  void operator()(auto&...) {}
};

}  // namespace internal

// A type that lists its fields in visit(). A field may have fields itself.
template <typename Some>
concept HasFields = requires(Some& some, internal::AnyArchive& archive) { some.visit(archive); };

namespace internal {

class ControlWriter {
 public:
  std::vector<std::byte> bytes;
  void operator()(auto&... fields) { (put(fields), ...); }

 private:
  void put(const Id& id) { raw(id.bytes.data(), id.bytes.size()); }
  void put(std::unsigned_integral auto value) { raw(&value, sizeof value); }
  template <std::size_t kCount>
  void put(const std::array<std::byte, kCount>& some) {
    raw(some.data(), kCount);
  }
  void put(const std::string& text) {
    put(static_cast<std::uint32_t>(text.size()));
    raw(text.data(), text.size());
  }
  template <typename Part>
  void put(std::vector<Part>& parts) {
    put(static_cast<std::uint32_t>(parts.size()));
    for (Part& part : parts) put(part);
  }
  void put(HasFields auto& part) { part.visit(*this); }
  void raw(const void* data, std::size_t count) {
    const auto* from = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), from, from + count);
  }
};

class ControlReader {
 public:
  explicit ControlReader(std::span<const std::byte> bytes) : rest_(bytes) {}
  void operator()(auto&... fields) { (get(fields), ...); }
  bool at_end() const { return rest_.empty(); }

 private:
  void get(Id& id) { std::memcpy(id.bytes.data(), take(id.bytes.size()).data(), id.bytes.size()); }
  void get(std::unsigned_integral auto& value) {
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
  }
  template <std::size_t kCount>
  void get(std::array<std::byte, kCount>& some) {
    std::memcpy(some.data(), take(kCount).data(), kCount);
  }
  void get(std::string& text) {
    std::uint32_t length = 0;
    get(length);
    const auto part = take(length);
    text.assign(reinterpret_cast<const char*>(part.data()), part.size());
  }
  template <typename Part>
  void get(std::vector<Part>& parts) {
    std::uint32_t count = 0;
    get(count);
    if (count > rest_.size()) throw Error(Code::kProtocol, "control message: cut short");
    parts.resize(count);
    for (Part& part : parts) get(part);
  }
  void get(HasFields auto& part) { part.visit(*this); }
  std::span<const std::byte> take(std::size_t count) {
    if (count > rest_.size()) throw Error(Code::kProtocol, "control message: cut short");
    const auto part = rest_.first(count);
    rest_ = rest_.subspan(count);
    return part;
  }

  std::span<const std::byte> rest_;
};

}  // namespace internal

// Returns the bytes of all fields that visit() lists, one after the other.
template <typename Fields>
std::vector<std::byte> encode_fields(Fields fields) {
  internal::ControlWriter writer;
  fields.visit(writer);
  return std::move(writer.bytes);
}

// Decodes the fields. Throws Error(kProtocol) unless `bytes` are exactly these fields.
template <typename Fields>
Fields decode_fields(std::span<const std::byte> bytes) {
  internal::ControlReader reader(bytes);
  Fields fields;
  fields.visit(reader);
  if (!reader.at_end()) throw Error(Code::kProtocol, "control message: bytes after the last field");
  return fields;
}

}  // namespace tensorbus::link
