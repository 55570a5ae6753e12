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

namespace tensorbus::device {

// Copies an owner's GPU memory to host memory for borrowers that cannot use the device
// (docs/cuda.md, "Who cannot use the device"). Borrowers that request the same bytes share one
// copy. Copies lie in pinned blocks of the arena; some unused copies are kept for reuse. Only for
// the event loop's thread.
class HostCopies {
 public:
  // `wake` makes the event loop call deliver() soon. It must be callable in any thread, take no
  // lock that a caller of the driver holds, and not throw.
  HostCopies(std::shared_ptr<memory::Arena> arena, std::shared_ptr<DeviceMemory> device_memory,
             std::function<void()> wake);
  // Unfinished copies keep their memory until they are done.
  ~HostCopies();
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;

  // Bytes of a block on a device.
  struct Range {
    memory::BlockRef block;
    std::uint64_t offset = 0;  // in the segment
    std::size_t bytes = 0;
  };
  struct Copied {
    memory::BlockRef block;           // of the arena
    std::uint64_t offset = 0;         // of the range's first byte, in the segment of `block`
    int device = 0;                   // our ordinal of the range's device
    std::shared_ptr<const void> use;  // held by readers of the copy
  };
  using Result = std::variant<Copied, Error>;
  using OnCopied = std::function<void(const Result&)>;

  // Requests a copy of the range, which is made when the block is completely written. Calls
  // `on_copied`, from here or from deliver(), when the copy is made or cannot be made. If
  // `on_copied` throws std::bad_alloc in deliver(), it is called once more. Copies that are made or
  // read take at most half of the arena's budget, or are a single copy; other requests wait. Throws
  // Error(kOutOfMemory) for a copy that can never fit and if too many requests wait, Error(kSystem)
  // for a device with a broken context, and the driver's errors.
  void copy(const Range& range, OnCopied on_copied);
  // Reports finished copies, begins waiting ones, and frees copies that were unused for a long
  // time.
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
  static void pin(Copy& copy, const Gpu& device);
  void start(Copy& copy, const Range& range);
  static Copied copied(const Copy& copy);
  static void tell(Copy& copy, const Result& result);
  void let_go(std::size_t max_resting);
  const GpuStream& stream_of(const Gpu& device);

  const std::shared_ptr<memory::Arena> arena_;
  const std::shared_ptr<DeviceMemory> device_memory_;
  const std::shared_ptr<Notifier> notifier_;
  std::list<std::shared_ptr<Copy>> copies_;  // the most recently used is last
  std::deque<Waiting> waiting_;              // for room
  std::map<const Gpu*, OwnStream> streams_;
};

}  // namespace tensorbus::device
