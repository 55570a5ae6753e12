#include "tensorbus/bus/participant/memory_supply.hpp"

#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {

template <typename Allocate>
memory::BlockRef MemorySupply::take_back_first(Allocate allocate) {
  try {
    return allocate();
  } catch (const Error& error) {
    if (error.code() != Code::kOutOfMemory) throw;
  }
  for (const auto& publisher : publishers_.living()) publisher->drain();
  return allocate();
}

memory::BlockRef MemorySupply::allocate(std::size_t bytes, memory::PoolId pool) {
  return take_back_first([&] { return context_.arena->allocate(bytes, pool); });
}

memory::BlockRef MemorySupply::allocate_without_waiting(std::size_t bytes, memory::PoolId pool) {
  try {
    return context_.arena->allocate(bytes, pool);
  } catch (const Error& error) {
    if (error.code() != Code::kOutOfMemory) throw;
  }
  for (const auto& publisher : publishers_.living()) publisher->drain_if_idle();
  return context_.arena->allocate(bytes, pool);
}

memory::BlockRef MemorySupply::allocate(const Device& device, std::size_t bytes,
                                        memory::Grant most) {
  const auto& gpu = device::Gpu::at(device.ordinal);
  return take_back_first([&] { return context_.device_memory->allocate(gpu, bytes, most); });
}

Outcome MemorySupply::when_there_is_room(const platform::StopCondition& stop,
                                         const std::function<void()>& allocate) {
  try {
    allocate();
    return Outcome::kDone;
  } catch (const memory::ArenaFull&) {
    if (stop.timeout().count() <= 0) throw;
  }
  memory::RoomWait room(*context_.arena);
  while (true) {
    try {
      room.attempt(allocate);
      return Outcome::kDone;
    } catch (const memory::ArenaFull&) {
      const Outcome outcome = wait_until_freed(room, stop);
      if (outcome == Outcome::kTimedOut) throw;
      if (outcome != Outcome::kDone) return outcome;
    }
  }
}

// Returns kDone when another attempt may succeed: after memory was freed, and from time to time
// without a reason. These retries are needed because leases returned on best-effort links wake no
// thread, and because another thread's attempt may have used the room for a moment.
Outcome MemorySupply::wait_until_freed(memory::RoomWait& room,
                                       const platform::StopCondition& stop) {
  bool slept = false;
  const Outcome ended = stop.wait(
      [&] {
        for (const auto& publisher : publishers_.living()) publisher->drain();
        return room.freed() || slept;
      },
      [&](std::chrono::nanoseconds most) {
        const platform::FutexWait outcome = room.sleep(most);
        slept = outcome == platform::FutexWait::kTimedOut;
        return outcome;
      });
  // If the last sleep timed out, wait() did not call give_up(); and a signal may come while the
  // thread does not sleep.
  return ended == Outcome::kDone && slept && stop.given_up() ? Outcome::kInterrupted : ended;
}

SampleBuilder::Supplies MemorySupply::supplies(memory::Grant grant) {
  return {*context_.arena,
          *context_.device_memory,
          grant == memory::Grant::kWrite ? to_write_ : to_read_,
          copies_,
          grant,
          context_.self,
          *context_.lent,
          true};
}

}  // namespace tensorbus::bus
