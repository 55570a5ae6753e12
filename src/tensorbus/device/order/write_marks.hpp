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

namespace tensorbus::memory {

// When the blocks of an owner are whole: which of its streams write them, and how far these are.
// Thread-safe.
class WriteMarks {
 public:
  WriteMarks() = default;
  WriteMarks(const WriteMarks&) = delete;
  WriteMarks& operator=(const WriteMarks&) = delete;

  // The blocks are whole when all that is enqueued on the stream now has run. Throws what
  // Timeline::signal() throws.
  void written_by(const platform::GpuStream& stream, std::span<const BlockRef> blocks);
  // Has `work` enqueued on the stream, behind what writes the block. The stream is the caller's
  // alone, and no lock is held meanwhile: the driver may wait until it has run. `end` is let go of
  // when it has, or never will.
  void after_whole(const platform::GpuStream& stream, const Block& block,
                   const std::function<void()>& work, std::shared_ptr<const void> end);
  // What is enqueued on the stream from now on finds the block whole. The stream is to write a
  // block afterwards, as written_by() has it.
  void wait_on(const platform::GpuStream& stream, const Block& block);
  // By the write mark of a block.
  bool whole(std::uint64_t write_mark) const noexcept;
  // For as long as streams may still write.
  void keep(std::shared_ptr<const void> what) noexcept;
  // Until the block is whole, or never will be.
  void keep_until_whole(const Block& block, std::shared_ptr<const void> what);
  // A mark of `timeline` for when all of them are; none, if they are now. A stream of our own waits
  // for those that write them, and signals it.
  Mark when_whole(Timeline& timeline, std::span<const BlockRef> blocks);

 private:
  const platform::GpuStream& relay_of(std::uint32_t slot) TB_REQUIRES(mutex_);

  mutable platform::Mutex mutex_;
  Timeline& own() TB_REQUIRES(mutex_);

  std::unique_ptr<Timeline> made_ TB_GUARDED_BY(mutex_);  // that nobody else has
  // The same, once it is made with the first mark. Release pairs with acquire.
  std::atomic<Timeline*> own_{nullptr};
  // By the slot of what they wait for, so that none waits for another's work.
  std::map<std::uint32_t, platform::OwnStream> relays_ TB_GUARDED_BY(mutex_);
  std::map<std::uint32_t, const platform::Gpu*> devices_ TB_GUARDED_BY(mutex_);  // of slots
};

}  // namespace tensorbus::memory
