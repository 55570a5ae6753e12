#include <atomic>
#include <chrono>
#include <cstring>

#include "call.hpp"
#include "stream.hpp"

// Operations of streams on memory: copies, and values that order them with other processes.
namespace standin {
namespace {

using namespace std::chrono_literals;

std::atomic_ref<std::uint64_t> word_at(DevicePtr address) {
  return std::atomic_ref(*static_cast<std::uint64_t*>(pointer_to(address)));
}

// Once main has returned, the memory may be gone: then nothing is read any more.
bool has_value(DevicePtr address, std::uint64_t value) {
  const std::lock_guard lock(world().mutex);
  if (world().exiting) return false;
  return static_cast<std::int64_t>(word_at(address).load(std::memory_order_acquire) - value) >= 0;
}

// Polls, because the writer may be another process that does not know this one.
void wait_for_value(DevicePtr address, std::uint64_t value) {
  while (!has_value(address, value)) std::this_thread::sleep_for(50us);
}

// A chunk is accessible to the devices that were given access where it is mapped.
bool has_access(const Range& range, const StreamTag& stream, AccessFlags wanted) {
  if (range.kind != Range::Kind::kMapping) return true;
  const auto given = range.access.find(stream.context->device);
  const int flags = given != range.access.end() ? static_cast<int>(given->second) : 0;
  return (flags & static_cast<int>(wanted)) == static_cast<int>(wanted);
}

// Another device's allocation may only be copied.
bool has_word(Memory& memory, DevicePtr address, const StreamTag& stream, AccessFlags wanted) {
  if (address % sizeof(std::uint64_t) != 0) return false;
  if (is_registered(memory, address, sizeof(std::uint64_t), stream.context)) return true;
  const auto* const found = holder_of(memory.ranges, address, sizeof(std::uint64_t));
  if (found == nullptr || !has_access(found->second, stream, wanted)) return false;
  return found->second.kind == Range::Kind::kMapping || found->second.context == stream.context;
}

Result enqueue_on_word(World& all, Stream handle, DevicePtr address, AccessFlags wanted,
                       Operation operation) {
  if (!settings().has("mem_ops")) return Result::kNotSupported;
  return on_stream(all, handle, [&](const StreamRef& stream) {
    const Result refused = refuse_capture(*stream);
    if (refused != Result::kSuccess) return refused;
    if (!has_word(all.memory, address, *stream, wanted)) return Result::kInvalidValue;
    operation.touched = {{address, sizeof(std::uint64_t)}};
    enqueue(all, stream, std::move(operation));
    return Result::kSuccess;
  });
}

// Checks adjacent ranges; memory that is neither in a range nor reserved is the host's.
bool can_copy(Memory& memory, DevicePtr address, std::size_t bytes, const StreamTag& stream,
              AccessFlags wanted) {
  const DevicePtr end = address + bytes;
  if (holder_of(memory.ranges, address, 1) == nullptr)
    return address != 0 && holder_of(memory.reservations, address, 1) == nullptr;
  while (address < end) {
    const auto* const found = holder_of(memory.ranges, address, 1);
    if (found == nullptr || !has_access(found->second, stream, wanted)) return false;
    address = found->first + found->second.bytes;
  }
  return true;
}

}  // namespace

extern "C" Result cuMemcpyAsync(DevicePtr to, DevicePtr from, std::size_t bytes, Stream handle) {
  return call(__func__, [&](World& all) {
    return on_stream(all, handle, [&](const StreamRef& stream) {
      if (!can_copy(all.memory, to, bytes, *stream, AccessFlags::kReadWrite) ||
          !can_copy(all.memory, from, bytes, *stream, AccessFlags::kRead))
        return Result::kInvalidValue;
      enqueue(all, stream,
              {.run = [=] { std::memmove(pointer_to(to), pointer_to(from), bytes); },
               .touched = {{to, bytes}, {from, bytes}},
               .copies = true});
      return Result::kSuccess;
    });
  });
}

extern "C" Result cuStreamWriteValue64_v2(Stream handle, DevicePtr address, std::uint64_t value,
                                          unsigned flags) {
  return call(__func__, [&](World& all) {
    if (flags != kWriteValueDefault) return Result::kInvalidValue;
    return enqueue_on_word(all, handle, address, AccessFlags::kReadWrite, {.end = [=] {
                             word_at(address).store(value, std::memory_order_release);
                           }});
  });
}

extern "C" Result cuStreamWaitValue64_v2(Stream handle, DevicePtr address, std::uint64_t value,
                                         unsigned flags) {
  return call(__func__, [&](World& all) {
    if (flags != kWaitValueGeq) return Result::kInvalidValue;
    return enqueue_on_word(all, handle, address, AccessFlags::kRead,
                           {.run = [=] { wait_for_value(address, value); }});
  });
}

}  // namespace standin
