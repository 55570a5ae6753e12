#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>

#include "tensorbus/device/order/timeline.hpp"
#include "tensorbus/memory/block.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::device {

// Records which streams write to an owner's blocks, and whether the blocks are completely written.
// Thread-safe.
class WriteMarks {
 public:
  WriteMarks() = default;
  WriteMarks(const WriteMarks&) = delete;
  WriteMarks& operator=(const WriteMarks&) = delete;

  // Records that the blocks are complete when all present work of the stream has run. Throws what
  // Timeline::signal() throws.
  void written_by(const GpuStream& stream, std::span<const memory::BlockRef> blocks);
  // Makes the stream wait for the block's writer, then calls `work`, which enqueues work on the
  // stream. Only the caller may use the stream. No lock is held during `work`, because the driver
  // may wait until the work has run. `end` is released when the work has run or will never run.
  void after_whole(const GpuStream& stream, const memory::Block& block,
                   const std::function<void()>& work, std::shared_ptr<const void> end);
  // Makes later work of the stream find the block complete. If the stream then writes to the block,
  // written_by() must be called.
  void wait_on(const GpuStream& stream, const memory::Block& block);
  // Returns true if the block with this write mark is complete.
  bool whole(std::uint64_t write_mark) const noexcept;
  // Keeps `what` while streams may still write.
  void keep(std::shared_ptr<const void> what) noexcept;
  // Keeps `what` until the block is complete or never will be.
  void keep_until_whole(const memory::Block& block, std::shared_ptr<const void> what);
  // Returns a mark of `timeline` that is reached when all blocks are complete; no mark if they are
  // complete already. A stream of Tensorbus waits for their writers and signals the mark.
  Mark when_whole(Timeline& timeline, std::span<const memory::BlockRef> blocks);

 private:
  const GpuStream& relay_of(std::uint32_t slot) TB_REQUIRES(mutex_);

  mutable platform::Mutex mutex_;
  Timeline& own() TB_REQUIRES(mutex_);

  std::unique_ptr<Timeline> made_ TB_GUARDED_BY(mutex_);  // private
  // The same object, null before the first mark. Release pairs with acquire.
  std::atomic<Timeline*> own_{nullptr};
  // Streams by the slot for which they wait, so that no stream waits for the work of another slot.
  std::map<std::uint32_t, OwnStream> relays_ TB_GUARDED_BY(mutex_);
  std::map<std::uint32_t, const Gpu*> devices_ TB_GUARDED_BY(mutex_);  // of slots
};

}  // namespace tensorbus::device
