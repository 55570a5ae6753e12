#include "tensorbus/device/memory/own_block.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "tensorbus/device/order/deferred_releaser.hpp"

namespace tensorbus::device {
namespace {

// Makes the next user of the block wait for all these streams. Skips the streams of a device with a
// broken context, because they run nothing any more.
void note_uses(WriteMarks& marks, std::vector<GpuStream> streams, const memory::BlockRef& block) {
  std::erase_if(streams, [](const GpuStream& stream) { return stream.device().is_broken(); });
  if (streams.empty()) return;
  for (std::size_t i = 1; i < streams.size(); ++i) streams.front().join(streams[i]);
  marks.written_by(streams.front(), {&block, 1});
}

// Retries note_uses(): a stream that is being captured into a graph cannot signal.
void let_go_later(const std::shared_ptr<DeviceMemory>& device_memory, const memory::BlockRef& block,
                  const std::vector<GpuStream>& streams,
                  const std::vector<DeviceKeeper::OurStream>& ours) {
  DeferredReleaser::retry([device_memory, block, streams, ours] {
    try {
      note_uses(device_memory->marks(), streams, block);
      return true;
    } catch (const std::exception&) {
      return false;
    }
  });
}

}  // namespace

OwnBlock::OwnBlock(std::shared_ptr<DeviceMemory> device_memory, memory::BlockRef block,
                   Intact intact)
    : device_memory_(std::move(device_memory)),
      block_(std::move(block)),
      device_(device_memory_->device_of(block_->segment())),
      intact_(std::move(intact)) {}

OwnBlock::~OwnBlock() {
  if (fork_generation_ != platform::fork_generation())
    platform::abandon(std::move(block_));
  else if (!streams_.empty() && Gpu::any_in_use())
    let_go();
}

void OwnBlock::let_go() noexcept {
  try {
    return note_uses(device_memory_->marks(), streams_, block_);
  } catch (const std::exception&) {  // tried again later
  }
  try {
    let_go_later(device_memory_, block_, streams_, ours_);
  } catch (const std::exception&) {  // no memory: the block is leaked
    platform::abandon(std::move(block_));
  }
}

void OwnBlock::use_on(const GpuStream& stream) {
  const platform::MutexLock lock(mutex_);
  if (std::find(streams_.begin(), streams_.end(), stream) != streams_.end()) return;
  streams_.reserve(streams_.size() + 1);
  device_memory_->marks().wait_on(stream, *block_);
  streams_.push_back(stream);
}

void OwnBlock::use_on(const OurStream& stream) {
  {
    const platform::MutexLock lock(mutex_);
    ours_.push_back(stream);
  }
  use_on(stream->get());
}

bool OwnBlock::intact() const noexcept { return !device_.is_broken() && (!intact_ || intact_()); }

}  // namespace tensorbus::device
