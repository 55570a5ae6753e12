#include <atomic>
#include <chrono>
#include <cstring>

#include "call.hpp"
#include "stream.hpp"

// What streams do to memory: copies, and values that order them with other processes.
namespace standin {
namespace {

using namespace std::chrono_literals;

std::atomic_ref<std::uint64_t> word_at(DevicePtr address) {
  return std::atomic_ref(*static_cast<std::uint64_t*>(pointer_to(address)));
}

// Once main has returned the memory may be gone: then nothing is read any more.
bool has_value(DevicePtr address, std::uint64_t value) {
  const std::lock_guard lock(world().mutex);
  if (world().exiting) return false;
  return static_cast<std::int64_t>(word_at(address).load(std::memory_order_acquire) - value) >= 0;
}

// Polls, as the one who writes may be another process that knows nothing of this one.
void wait_for_value(DevicePtr address, std::uint64_t value) {
  while (!has_value(address, value)) std::this_thread::sleep_for(50us);
}

bool is_accessible(Memory& memory, DevicePtr address, std::size_t bytes) {
  const auto* const found = holder_of(memory.ranges, address, bytes);
  if (found == nullptr) return false;
  return found->second.kind != Range::Kind::kMapping || !found->second.access.empty();
}

Result check_word(World& all, DevicePtr address, Context context) {
  if (address % sizeof(std::uint64_t) != 0) return Result::kInvalidValue;
  return is_accessible(all.memory, address, sizeof(std::uint64_t)) ||
                 is_registered(all.memory, address, sizeof(std::uint64_t), context)
             ? Result::kSuccess
             : Result::kInvalidValue;
}

Result enqueue_on_word(World& all, Stream handle, DevicePtr address, std::function<void()> run) {
  if (!settings().has("mem_ops")) return Result::kNotSupported;
  return on_stream(all, handle, [&](const StreamRef& stream) {
    Result refused = refuse_capture(*stream);
    if (refused == Result::kSuccess) refused = check_word(all, address, stream->context);
    if (refused != Result::kSuccess) return refused;
    enqueue(all, stream, {.run = std::move(run), .touched = {{address, sizeof(std::uint64_t)}}});
    return Result::kSuccess;
  });
}

// Reserved addresses hold nothing until they are mapped and access is set; others may be the
// host's.
bool can_copy(Memory& memory, DevicePtr address, std::size_t bytes) {
  if (address == 0) return false;
  if (holder_of(memory.reservations, address, 1) == nullptr &&
      holder_of(memory.ranges, address, 1) == nullptr)
    return true;
  while (bytes > 0) {  // over the mappings that follow each other
    if (!is_accessible(memory, address, 1)) return false;
    const auto* const range = holder_of(memory.ranges, address, 1);
    const std::size_t there = range->first + range->second.bytes - address;
    if (range->second.kind != Range::Kind::kMapping && there < bytes) return false;
    address += std::min(there, bytes);
    bytes -= std::min(there, bytes);
  }
  return true;
}

}  // namespace

extern "C" Result cuMemcpyAsync(DevicePtr to, DevicePtr from, std::size_t bytes, Stream handle) {
  return call(__func__, [&](World& all) {
    return on_stream(all, handle, [&](const StreamRef& stream) {
      if (!can_copy(all.memory, to, bytes) || !can_copy(all.memory, from, bytes))
        return Result::kInvalidValue;
      enqueue(all, stream,
              {.run = [=] { std::memmove(pointer_to(to), pointer_to(from), bytes); },
               .touched = {{to, bytes}, {from, bytes}}});
      return Result::kSuccess;
    });
  });
}

extern "C" Result cuStreamWriteValue64_v2(Stream handle, DevicePtr address, std::uint64_t value,
                                          unsigned flags) {
  return call(__func__, [&](World& all) {
    if (flags != kWriteValueDefault) return Result::kInvalidValue;
    return enqueue_on_word(all, handle, address,
                           [=] { word_at(address).store(value, std::memory_order_release); });
  });
}

extern "C" Result cuStreamWaitValue64_v2(Stream handle, DevicePtr address, std::uint64_t value,
                                         unsigned flags) {
  return call(__func__, [&](World& all) {
    if (flags != kWaitValueGeq) return Result::kInvalidValue;
    return enqueue_on_word(all, handle, address, [=] { wait_for_value(address, value); });
  });
}

}  // namespace standin
