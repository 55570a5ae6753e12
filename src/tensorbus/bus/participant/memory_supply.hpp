#pragma once

#include <cstddef>
#include <functional>
#include <tensorbus/values/device.hpp>
#include <tensorbus/values/outcome.hpp>

#include "tensorbus/bus/copy/copy_tuner.hpp"
#include "tensorbus/bus/participant/publishers.hpp"
#include "tensorbus/bus/publish/sample_builder.hpp"
#include "tensorbus/bus/session/participant_context.hpp"
#include "tensorbus/memory/host/arena.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus::bus {

// Allocates a participant's memory. If memory is short, takes back samples that subscribers have
// returned to the participant's publishers, and waits for more memory. Thread-safe.
class MemorySupply {
 public:
  MemorySupply(ParticipantContext& context, const Publishers& publishers)
      : context_(context), publishers_(publishers) {}
  MemorySupply(const MemorySupply&) = delete;
  MemorySupply& operator=(const MemorySupply&) = delete;

  // Returns a block of the arena. Drains all publishers before it throws Error(kOutOfMemory).
  memory::BlockRef allocate(std::size_t bytes, memory::PoolId pool);
  // As allocate(), but drains only publishers that no other thread uses now, so that it never
  // waits.
  memory::BlockRef allocate_without_waiting(std::size_t bytes, memory::PoolId pool);
  // As allocate(), for a block on a GPU.
  memory::BlockRef allocate(const Device& device, std::size_t bytes, memory::Grant most);
  // Calls `allocate`, which allocates from the arena. While the arena is full, calls it again
  // whenever memory was freed. Returns kDone, or kInterrupted. Throws what `allocate` throws:
  // ArenaFull after the time-out.
  Outcome when_there_is_room(const platform::StopCondition& stop,
                             const std::function<void()>& allocate);
  // Returns the supplies for shares and for items of queues.
  SampleBuilder::Supplies supplies(memory::Grant grant);

 private:
  // Allocates memory that borrowers may read or, depending on `most`, also write.
  struct Granting final : SampleBuilder::Allocator {
    MemorySupply& of;
    const memory::Grant most;
    Granting(MemorySupply& supply, memory::Grant granted) : of(supply), most(granted) {}
    memory::BlockRef allocate(std::size_t bytes) const override { return of.allocate(bytes, most); }
    memory::BlockRef allocate_on(const Device& device, std::size_t bytes) const override {
      return of.allocate(device, bytes, most);
    }
  };

  template <typename Allocate>
  memory::BlockRef take_back_first(Allocate allocate);
  Outcome wait_until_freed(memory::RoomWait& room, const platform::StopCondition& stop);

  ParticipantContext& context_;
  const Publishers& publishers_;
  const Granting to_read_{*this, memory::Grant::kRead};
  const Granting to_write_{*this, memory::Grant::kWrite};
  CopyTuner copies_;  // for shares and items of queues
};

}  // namespace tensorbus::bus
