#include "tensorbus/bus/inspect/report_codec.hpp"

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <tensorbus/internal/fields.hpp>
#include <tensorbus/internal/message_pack.hpp>
#include <tensorbus/values/value.hpp>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {
namespace {

using internal::HasList;
using internal::list_fields;

struct FieldCount {
  std::size_t fields = 0;
  void operator()(const char*, const auto&) noexcept { ++fields; }
};

std::size_t count_fields(const HasList auto& report) {
  FieldCount count;
  list_fields(count, report);
  return count.fields;
}

class ReportWriter {
 public:
  void operator()(const char*, const auto& field) { put(field); }
  void put(const HasList auto& report) {
    pack_.write_list_of(count_fields(report));
    list_fields(*this, report);
  }
  std::vector<std::byte> take() { return pack_.take(); }

 private:
  void put(bool value) { pack_.write(Value(value)); }
  void put(std::unsigned_integral auto value) { pack_.write(Value(std::uint64_t{value})); }
  void put(std::chrono::nanoseconds value) {
    put(static_cast<std::uint64_t>(std::max<std::int64_t>(value.count(), 0)));
  }
  void put(Access access) { put(static_cast<std::uint32_t>(access)); }
  void put(const std::string& text) { pack_.write(std::string_view(text)); }
  void put(const Id& id) { pack_.write(std::as_bytes(std::span(id.bytes))); }
  template <typename Part>
  void put(const std::vector<Part>& parts) {
    pack_.write_list_of(parts.size());
    for (const Part& part : parts) put(part);
  }

  internal::PackWriter pack_;
};

class ReportReader {
 public:
  explicit ReportReader(std::span<const std::byte> bytes)
      : rest_(bytes), room_(kMaxGrowth * bytes.size()) {}
  void operator()(const char*, auto& field) { get(field); }
  void get(HasList auto& report) {
    const std::size_t known = count_fields(report);
    const std::size_t fields = require(rest_.list());
    if (fields < known) refuse("a list with too few fields");
    list_fields(*this, report);
    for (std::size_t i = known; i < fields; ++i) skip(kMaxLevels);
  }
  bool at_end() const noexcept { return rest_.left() == 0; }

 private:
  static constexpr int kMaxLevels = 16;
  static constexpr std::size_t kMaxReserved = 64;
  static constexpr std::size_t kMaxGrowth = 16;

  [[noreturn]] static void refuse(const char* why) {
    throw Error(Code::kProtocol, std::string("inspection: ") + why);
  }
  template <typename Found>
  static Found require(std::optional<Found> found) {
    if (!found) refuse("a field of another kind, or cut short");
    return *found;
  }

  void get(bool& value) { value = require(rest_.boolean()); }
  template <std::unsigned_integral Number>
  void get(Number& value) {
    const std::uint64_t number = require(rest_.unsigned_number());
    if (number > std::numeric_limits<Number>::max()) refuse("a number that is too large");
    value = static_cast<Number>(number);
  }
  void get(std::chrono::nanoseconds& value) {
    const std::uint64_t count = require(rest_.unsigned_number());
    if (count > static_cast<std::uint64_t>(std::chrono::nanoseconds::max().count()))
      refuse("a time that is too long");
    value = std::chrono::nanoseconds(static_cast<std::int64_t>(count));
  }
  void get(Access& access) {
    std::uint32_t number = 0;
    get(number);
    if (number > static_cast<std::uint32_t>(Access::kShared)) refuse("an unknown access");
    access = static_cast<Access>(number);
  }
  void get(std::string& text) { text = require(rest_.string()); }
  void get(Id& id) {
    const auto bytes = require(rest_.bytes());
    if (bytes.size() != id.bytes.size()) refuse("an id that is not 16 bytes");
    std::memcpy(id.bytes.data(), bytes.data(), bytes.size());
  }
  template <typename Part>
  void get(std::vector<Part>& parts) {
    const std::size_t count = require(rest_.list());
    if (count > rest_.left()) refuse("a list longer than its bytes");
    parts.clear();
    parts.reserve(std::min(count, kMaxReserved));
    for (std::size_t i = 0; i < count; ++i) {
      spend(sizeof(Part));
      get(parts.emplace_back());
    }
  }

  // Limits the memory of parts: a few bytes can announce many parts.
  void spend(std::size_t part_bytes) {
    if (part_bytes > room_) refuse("more parts than its bytes can describe");
    room_ -= part_bytes;
  }

  // Skips a field of a newer participant, of any kind that ReportWriter writes.
  void skip(int levels) {
    if (auto ahead = rest_; ahead.unsigned_number() || (ahead = rest_, ahead.boolean()) ||
                            (ahead = rest_, ahead.string()) || (ahead = rest_, ahead.bytes())) {
      rest_ = ahead;
      return;
    }
    const std::size_t items = require(rest_.list());
    if (levels == 0) refuse("lists nested too deep");
    for (std::size_t i = 0; i < items; ++i) skip(levels - 1);
  }

  internal::PackCursor rest_;
  std::size_t room_;  // bytes of parts that may still be made
};

}  // namespace

std::vector<std::byte> encode_report(const ParticipantReport& report) {
  ReportWriter writer;
  writer.put(report);
  return writer.take();
}

ParticipantReport decode_report(std::span<const std::byte> bytes) {
  ParticipantReport report;
  ReportReader reader(bytes);
  reader.get(report);
  if (!reader.at_end()) throw Error(Code::kProtocol, "inspection: bytes after the report");
  return report;
}

}  // namespace tensorbus::bus
