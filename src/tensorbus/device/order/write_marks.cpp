#include "tensorbus/device/order/write_marks.hpp"

namespace tensorbus::device {

Timeline& WriteMarks::own() {
  if (!made_) made_ = std::make_unique<Timeline>();
  own_.store(made_.get(), std::memory_order_release);
  return *made_;
}

void WriteMarks::written_by(const GpuStream& stream, std::span<const memory::BlockRef> blocks) {
  const platform::MutexLock lock(mutex_);
  Timeline& own = this->own();
  for (const memory::BlockRef& block : blocks)  // after earlier writes of other streams
    own.wait_for_own(stream, Mark::of(block->write_mark()));
  const Mark mark = own.signal(stream);
  for (const memory::BlockRef& block : blocks)
    if (block->kind() == memory::BufferKind::kDevice) block->set_write_mark(mark.packed());
  devices_.insert_or_assign(mark.slot, &stream.device());
}

void WriteMarks::after_whole(const GpuStream& stream, const memory::Block& block,
                             const std::function<void()>& work, std::shared_ptr<const void> end) {
  Timeline* own = nullptr;
  {
    const platform::MutexLock lock(mutex_);
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

void WriteMarks::wait_on(const GpuStream& stream, const memory::Block& block) {
  stream.require_usable("Using GPU memory");
  const platform::MutexLock lock(mutex_);
  own().wait_for_own(stream, Mark::of(block.write_mark()));
}

void WriteMarks::keep_until_whole(const memory::Block& block, std::shared_ptr<const void> what) {
  const platform::MutexLock lock(mutex_);
  own().keep_until_own(Mark::of(block.write_mark()), std::move(what));
}

// Takes no lock, because callers must not wait for a blocked driver.
bool WriteMarks::whole(std::uint64_t write_mark) const noexcept {
  const Timeline* const own = own_.load(std::memory_order_acquire);
  return own == nullptr || own->reached_own(Mark::of(write_mark));
}

void WriteMarks::keep(std::shared_ptr<const void> what) noexcept {
  if (Timeline* const own = own_.load(std::memory_order_acquire)) own->keep(std::move(what));
}

Mark WriteMarks::when_whole(Timeline& timeline, std::span<const memory::BlockRef> blocks) {
  const platform::MutexLock lock(mutex_);
  const GpuStream* relay = nullptr;
  for (const memory::BlockRef& block : blocks) {
    const Mark mark = Mark::of(block->write_mark());
    if (!mark || own().reached_own(mark)) continue;
    if (relay == nullptr) relay = &relay_of(mark.slot);
    own().wait_for_own(*relay, mark);
  }
  if (relay == nullptr) return {};
  (void)own().signal(*relay);
  return timeline.signal(*relay);
}

const GpuStream& WriteMarks::relay_of(std::uint32_t slot) {
  return relays_.try_emplace(slot, *devices_.at(slot)).first->second.get();
}

}  // namespace tensorbus::device
