#include <cstring>

#include "call.hpp"

// What a pointer points into.
namespace standin {
namespace {

struct Facts {
  MemoryType type{};   // 0: not the driver's
  Device device = -2;  // CU_DEVICE_INVALID
  std::uint64_t buffer_id = 0;
  DevicePtr start = 0;
  std::size_t bytes = 0;
  DevicePtr mapping_start = 0;
  std::size_t mapping_bytes = 0;
  bool is_managed = false;
  bool is_legacy_capable = false;
  HandleType handle_types = HandleType::kNone;
  MemoryPool pool = nullptr;
};

// For a mapping, the range is the reservation in which it lies.
Facts facts_of_range(Memory& memory, DevicePtr base, const Range& range) {
  Facts facts{.type = MemoryType::kDevice,
              .device = ordinal_of(range.physical),
              .buffer_id = range.buffer_id,
              .start = base,
              .bytes = range.bytes,
              .mapping_start = base,
              .mapping_bytes = range.bytes,
              .pool = range.pool};
  if (range.kind == Range::Kind::kMapping) {
    const auto* const reservation = holder_of(memory.reservations, base, range.bytes);
    facts.start = reservation->first;
    facts.bytes = reservation->second;
    facts.handle_types = memory.chunks.at(range.chunk).handle_types;
  }
  facts.is_managed = range.managed;
  facts.is_legacy_capable =
      range.kind == Range::Kind::kAllocation && !range.managed && settings().has("legacy_ipc");
  return facts;
}

Facts facts_of(Memory& memory, DevicePtr address) {
  if (const auto* const found = holder_of(memory.ranges, address, 1))
    return facts_of_range(memory, found->first, found->second);
  const auto* const host = holder_of(memory.registrations, address, 1);
  if (host == nullptr) return {};
  return {.type = MemoryType::kHost,
          .device = host->second.context->device,
          .buffer_id = host->second.buffer_id,
          .start = host->first,
          .bytes = host->second.bytes,
          .mapping_start = host->first,
          .mapping_bytes = host->second.bytes};
}

template <typename Value>
Result put(void* to, Value value) {
  std::memcpy(to, &value, sizeof value);
  return Result::kSuccess;
}

Result put_attribute(const Facts& facts, PointerAttribute attribute, void* to) {
  switch (attribute) {
    case PointerAttribute::kMemoryType:
      return put(to, facts.type);
    case PointerAttribute::kBufferId:
      return put(to, facts.buffer_id);
    case PointerAttribute::kIsManaged:
      return put(to, facts.is_managed);
    case PointerAttribute::kDeviceOrdinal:
      return put(to, facts.device);
    case PointerAttribute::kIsLegacyIpcCapable:
      return put(to, facts.is_legacy_capable);
    case PointerAttribute::kRangeStart:
      return put(to, facts.start);
    case PointerAttribute::kRangeSize:
      return put(to, facts.bytes);
    case PointerAttribute::kMapped:
      return put(to, facts.mapping_bytes > 0);
    case PointerAttribute::kAllowedHandleTypes:
      return put(to, static_cast<std::uint64_t>(facts.handle_types));
    case PointerAttribute::kMempoolHandle:
      return put(to, facts.pool);
    case PointerAttribute::kMappingSize:
      return put(to, facts.mapping_bytes);
    case PointerAttribute::kMappingBase:
      return put(to, facts.mapping_start);
  }
  return Result::kInvalidValue;
}

}  // namespace

// A pointer that the driver does not know is not an error here: its attributes are null (cuda.h).
extern "C" Result cuPointerGetAttributes(unsigned count, PointerAttribute* attributes, void** data,
                                         DevicePtr address) {
  return call_in_context(__func__, [&](World& all, Context) {
    const Facts facts = facts_of(all.memory, address);
    for (unsigned index = 0; index < count; ++index) {
      const Result refused = put_attribute(facts, attributes[index], data[index]);
      if (refused != Result::kSuccess) return refused;
    }
    return Result::kSuccess;
  });
}

}  // namespace standin
