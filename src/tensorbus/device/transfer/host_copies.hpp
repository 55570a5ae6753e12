#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <variant>

#include "tensorbus/device/gpu_stream.hpp"
#include "tensorbus/device/memory/device_memory.hpp"
#include "tensorbus/memory/host/arena.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::memory {

// Copies in host memory of what an owner has on its devices, for borrowers that cannot use these
// (docs/cuda.md, "Who cannot use the device"): one for all who ask for the same bytes, in pinned
// blocks of the arena, some of which rest here to be used again. On one thread.
class HostCopies {
 public:
  // `wake` has deliver() called, soon and on that thread. It may come from any thread, takes no
  // lock that anybody holds while calling the driver, and does not throw.
  HostCopies(std::shared_ptr<Arena> arena, std::shared_ptr<DeviceMemory> device_memory,
             std::function<void()> wake);
  // Copies under way keep their memory until they are done.
  ~HostCopies();
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;

  // Bytes of a block on a device.
  struct Range {
    BlockRef block;
    std::uint64_t offset = 0;  // in the segment
    std::size_t bytes = 0;
  };
  struct Copied {
    BlockRef block;                   // of the arena
    std::uint64_t offset = 0;         // of the range's first byte, in its segment
    int device = 0;                   // where the range lies: our ordinal
    std::shared_ptr<const void> use;  // for as long as somebody reads the copy
  };
  using Result = std::variant<Copied, Error>;
  using OnCopied = std::function<void(const Result&)>;

  // `on_copied` is called from here, or by deliver(): when whatever writes the block has, and the
  // copy is made, or it cannot be made any more; once more, if it throws std::bad_alloc there. What
  // is copied and read takes half of the arena's budget at most, or is one copy alone: others wait
  // for it. Throws Error(kOutOfMemory) for one that will never fit, and if too many wait,
  // Error(kSystem) for a device whose context is broken, and what the driver says.
  void copy(const Range& range, OnCopied on_copied);
  // Tells of copies that are done, begins others, and lets go of memory that has rested for long.
  void deliver();

 private:
  class Notifier;
  struct Copy;

  struct Waiting {
    Range range;
    OnCopied on_copied;
  };
  bool serve(const Range& range, const OnCopied& on_copied);
  void serve_waiting();
  bool has_room_for(const Range& range) const;
  bool any_in_use() const;
  std::shared_ptr<Copy> begin(const Range& range);
  void require_possible(const Range& range) const;
  std::shared_ptr<Copy> find(const Range& range) const;
  std::shared_ptr<Copy> make(const Range& range);
  static void pin(Copy& copy, const platform::Gpu& device);
  void start(Copy& copy, const Range& range);
  static Copied copied(const Copy& copy);
  static void tell(Copy& copy, const Result& result);
  void let_go(std::size_t most_resting);
  const platform::GpuStream& stream_of(const platform::Gpu& device);

  const std::shared_ptr<Arena> arena_;
  const std::shared_ptr<DeviceMemory> device_memory_;
  const std::shared_ptr<Notifier> notifier_;
  std::list<std::shared_ptr<Copy>> copies_;  // the one that was used last, last
  std::deque<Waiting> waiting_;              // until there is room
  std::map<const platform::Gpu*, platform::OwnStream> streams_;
};

}  // namespace tensorbus::memory
