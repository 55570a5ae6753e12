#include "tensorbus/memory/write_marks.hpp"

#include "tensorbus/platform/error.hpp"

namespace tensorbus::memory {

using platform::CudaDriver;
using platform::CudaScope;
using platform::CudaStream;

WriteMarks::WriteMarks() = default;

WriteMarks::~WriteMarks() {
  const CudaDriver* const cuda = CudaDriver::in_use();
  if (cuda == nullptr) return;
  for (const auto& [slot, stream] : relays_) try {
      const CudaScope scope(stream.device());
      (void)cuda->StreamDestroy(stream.handle());  // what is enqueued there still runs
    } catch (const Error&) {                       // the device is lost
    }
}

// Under mutex_.
Timeline& WriteMarks::own() {
  if (!made_) made_ = std::make_unique<Timeline>();
  own_.store(made_.get(), std::memory_order_release);
  return *made_;
}

void WriteMarks::written_by(const CudaStream& stream, std::span<const BlockRef> blocks) {
  const std::lock_guard lock(mutex_);
  Timeline& own = this->own();
  for (const BlockRef& block : blocks)  // what another stream wrote before
    own.wait_for_own(stream, Mark::of(block->write_mark()));
  const Mark mark = own.signal(stream);
  for (const BlockRef& block : blocks)
    if (block->kind() == BufferKind::kCuda) block->set_write_mark(mark.packed());
  devices_.insert_or_assign(mark.slot, &stream.device());
}

void WriteMarks::after_whole(const CudaStream& stream, const Block& block,
                             const std::function<void()>& work, std::shared_ptr<const void> end) {
  Timeline* own = nullptr;
  {
    const std::lock_guard lock(mutex_);
    own = &this->own();
    own->wait_for_own(stream, Mark::of(block.write_mark()));
  }
  try {
    work();
  } catch (...) {
    (void)own->signal(stream);
    throw;
  }
  own->keep_until_own(own->signal(stream), std::move(end));
}

void WriteMarks::wait_on(const CudaStream& stream, const Block& block) {
  const std::lock_guard lock(mutex_);
  own().wait_for_own(stream, Mark::of(block.write_mark()));
}

void WriteMarks::keep_until_whole(const Block& block, std::shared_ptr<const void> what) {
  const std::lock_guard lock(mutex_);
  own().keep_until_own(Mark::of(block.write_mark()), std::move(what));
}

// Takes no lock: it is asked for where a driver that blocks must not be waited for.
bool WriteMarks::whole(std::uint64_t write_mark) const noexcept {
  const Timeline* const own = own_.load(std::memory_order_acquire);
  return own == nullptr || own->reached_own(Mark::of(write_mark));
}

void WriteMarks::keep(std::shared_ptr<const void> what) noexcept {
  if (Timeline* const own = own_.load(std::memory_order_acquire)) own->keep(std::move(what));
}

Mark WriteMarks::when_whole(Timeline& timeline, std::span<const BlockRef> blocks) {
  const std::lock_guard lock(mutex_);
  const CudaStream* relay = nullptr;
  for (const BlockRef& block : blocks) {
    const Mark mark = Mark::of(block->write_mark());
    if (!mark || own().reached_own(mark)) continue;
    if (relay == nullptr) relay = &relay_of(mark.slot);
    own().wait_for_own(*relay, mark);
  }
  if (relay == nullptr) return {};
  (void)own().signal(*relay);
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
