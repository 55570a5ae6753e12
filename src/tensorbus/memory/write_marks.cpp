#include "tensorbus/memory/write_marks.hpp"

#include "tensorbus/platform/error.hpp"

namespace tensorbus::memory {

using platform::CudaDriver;
using platform::CudaScope;
using platform::CudaStream;

WriteMarks::WriteMarks() = default;

WriteMarks::~WriteMarks() {
  if (!CudaDriver::usable()) return;
  for (const auto& [slot, stream] : relays_)  // what is enqueued there still runs
    (void)CudaDriver::get().StreamDestroy(stream.handle());
}

void WriteMarks::written_by(const CudaStream& stream, std::span<const BlockRef> blocks) {
  const std::lock_guard lock(mutex_);
  if (!own_) own_.emplace();
  for (const BlockRef& block : blocks)  // what another stream wrote before
    own_->wait_for_own(stream, Mark::of(block->write_mark()));
  const Mark mark = own_->signal(stream);
  devices_.emplace(mark.slot, &stream.device());
  for (const BlockRef& block : blocks)
    if (block->kind() == BufferKind::kCuda) block->set_write_mark(mark.packed());
}

bool WriteMarks::whole(std::uint64_t write_mark) const noexcept {
  if (write_mark == 0) return true;
  const std::lock_guard lock(mutex_);
  return own_->reached_own(Mark::of(write_mark));
}

Mark WriteMarks::when_whole(Timeline& timeline, std::span<const BlockRef> blocks) {
  const CudaStream* relay = nullptr;
  const std::lock_guard lock(mutex_);
  for (const BlockRef& block : blocks) {
    const Mark mark = Mark::of(block->write_mark());
    if (!mark || own_->reached_own(mark)) continue;
    if (relay == nullptr) relay = &relay_of(mark.slot);
    own_->wait_for_own(*relay, mark);
  }
  if (relay == nullptr) return {};
  (void)own_->signal(*relay);
  return timeline.signal(*relay);
}

const CudaStream& WriteMarks::relay_of(std::uint32_t slot) {
  const auto found = relays_.find(slot);
  if (found != relays_.end()) return found->second;
  const CudaDriver& cuda = CudaDriver::get();
  const platform::CudaDevice& device = *devices_.at(slot);
  const CudaScope scope(device);
  platform::cu::Stream stream = nullptr;
  cuda.check(cuda.StreamCreate(&stream, platform::cu::kStreamNonBlocking), "cuStreamCreate");
  return relays_.emplace(slot, CudaStream(device, stream)).first->second;
}

}  // namespace tensorbus::memory
