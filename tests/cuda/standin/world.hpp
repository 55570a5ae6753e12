#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "exports.hpp"
#include "memory.hpp"
#include "settings.hpp"

// A primary context. There is one for each device; it is never destroyed.
struct tensorbus::device::cu::ContextTag {
  Device device = 0;
  int physical = 0;
  unsigned retained = 0;
};

namespace standin {

using tensorbus::device::cu::MemoryPoolTag;
using StreamRef = std::shared_ptr<StreamTag>;

// A process's whole state of the driver. One mutex guards it: this is for tests, not for speed.
struct World {
  std::mutex mutex;
  std::condition_variable changed;  // a stream has more to do, or has done something

  std::vector<std::unique_ptr<ContextTag>> contexts;  // by device
  Memory memory;
  std::list<StreamRef> streams;  // also destroyed ones, until their queues are empty
  std::set<Event> events;
  bool copies_held = false;
  std::vector<std::shared_ptr<MemoryPoolTag>> pools;
  bool exiting = false;  // main has returned: nothing more runs
};

const Settings& settings();  // of this process, read once
World& world();              // never destroyed: streams outlive main

// Returns null if this thread has none, or if it was released.
Context current_context();
inline bool is_device(Device device) {
  return device >= 0 && static_cast<std::size_t>(device) < settings().physical.size();
}

// Reports a forbidden call of the test or of Tensorbus, and aborts.
[[noreturn]] void fail_test(const std::string& what);

}  // namespace standin
