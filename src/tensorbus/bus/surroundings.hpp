#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "tensorbus/bus/device_copier.hpp"
#include "tensorbus/bus/service.hpp"
#include "tensorbus/bus/shares.hpp"
#include "tensorbus/link/lent_memory.hpp"
#include "tensorbus/link/wake.hpp"
#include "tensorbus/memory/arena.hpp"
#include "tensorbus/memory/cuda_memory.hpp"
#include "tensorbus/memory/host_copies.hpp"
#include "tensorbus/memory/peer_budget.hpp"
#include "tensorbus/platform/id.hpp"

namespace tensorbus::bus {

class Exchange;
class QueueHost;

// What connections need of their participant. Outlives them.
struct Surroundings {
  Id self;
  Service& service;
  std::shared_ptr<memory::Arena> arena;
  std::shared_ptr<memory::CudaMemory> cuda;
  std::shared_ptr<link::WakePage> wake_page;
  std::shared_ptr<DeviceCopier> copier{};
  Shares shares{};
  std::shared_ptr<link::LentMemory> lent = std::make_shared<link::LentMemory>();
  std::shared_ptr<memory::PeerBudget> peers = std::make_shared<memory::PeerBudget>();

  // A block of ours, as others name it. Any thread.
  memory::BlockRef find_block(std::uint32_t segment, std::uint64_t offset,
                              std::uint64_t generation) const noexcept {
    return memory::CudaMemory::is_number(segment) ? cuda->find(segment, offset, generation)
                                                  : arena->find(segment, offset, generation);
  }

  // The rest is for the service thread.
  std::shared_ptr<QueueHost> queues{};  // empty: there can be none here
  std::unique_ptr<memory::HostCopies> host_copies{};
  // Hands in the exchange with another participant, or null if it is dead.
  using OnReached = std::function<void(const std::shared_ptr<Exchange>&)>;
  std::function<void(const Id&, OnReached)> reach = [](const Id&, const OnReached& on_reached) {
    on_reached(nullptr);
  };
  // Does nobody listen at its socket?
  std::function<bool(const Id&)> is_dead = [](const Id&) { return true; };
  // What a participant that is dead has left here.
  std::function<std::vector<std::shared_ptr<link::Connected>>(const Id& owner)> estate_of =
      [](const Id&) { return std::vector<std::shared_ptr<link::Connected>>(); };
};

}  // namespace tensorbus::bus
