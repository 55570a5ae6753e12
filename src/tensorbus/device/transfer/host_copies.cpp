#include "tensorbus/device/transfer/host_copies.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "tensorbus/device/order/deferred_releaser.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/platform/fork_guard.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::device {
namespace {

// Limits for unused copies. They are kept for borrowers that request the same bytes a little later,
// and because pinning their pages takes long.
constexpr std::size_t kMaxResting = 4;
constexpr std::size_t kMaxRestingBytes = std::size_t{256} << 20;

constexpr std::size_t kMaxWaiting = 4096;

Error broken(const Gpu& device) {
  return {Code::kSystem, "the memory of cuda:" + std::to_string(device.ordinal()) +
                             " cannot be read any more: a kernel of its owner failed and broke the "
                             "CUDA context"};
}

std::uintptr_t round_up(std::uintptr_t value, std::size_t to) { return (value + to - 1) / to * to; }

}  // namespace

// Outlives HostCopies: the driver and readers of copies hold it.
class HostCopies::Notifier {
 public:
  explicit Notifier(std::function<void()> wake) : wake_(std::move(wake)) {}
  void notify() noexcept {
    const platform::MutexLock lock(mutex_);
    if (wake_) wake_();
  }
  void silence() noexcept {
    const platform::MutexLock lock(mutex_);
    wake_ = {};
  }

 private:
  platform::Mutex mutex_;
  std::function<void()> wake_ TB_GUARDED_BY(mutex_);
};

struct HostCopies::Copy {
  Copy(memory::BlockRef memory, std::size_t wanted, std::shared_ptr<Notifier> to_notify)
      : notifier(std::move(to_notify)), block(std::move(memory)), bytes(wanted) {
    const std::size_t page = platform::page_bytes();
    auto* const first = reinterpret_cast<std::byte*>(
        round_up(reinterpret_cast<std::uintptr_t>(block->data()), page));
    pages = {first, round_up(bytes, page)};
  }

  // Returns the size of the block for a copy of `bytes`: its pages contain no other block.
  static std::size_t block_bytes(std::size_t bytes) {
    return round_up(bytes, platform::page_bytes()) + platform::page_bytes();
  }

  bool is_of(const Range& range) const {
    return segment == range.block->segment() && generation == range.block->generation() &&
           write_mark == range.block->write_mark() && offset == range.offset &&
           length == range.bytes;
  }
  bool in_use() const { return (!rests() || source) && !given_up; }
  bool rests() const { return done.load(std::memory_order_acquire) && block.unshared(); }

  const std::shared_ptr<Notifier> notifier;
  // The source. The write mark identifies the contents: a block that is published again has other
  // bytes.
  memory::SegmentId segment = 0;
  std::uint64_t generation = 0;
  std::uint64_t write_mark = 0;
  std::uint64_t offset = 0;
  std::size_t length = 0;
  int device = 0;
  std::optional<memory::BlockRef> source;  // until the copy is done

  const memory::BlockRef block;
  const std::size_t bytes;
  std::span<std::byte> pages;
  std::size_t begin = 0;  // of the copy within the pages
  std::optional<HostRegistration> pinned;
  // Stored by a thread of the driver, which does not access the copy afterwards. Release: pairs
  // with the acquire in rests() and deliver().
  std::atomic<bool> done{false};
  bool given_up = false;  // the copy may never be done
  std::deque<OnCopied> waiting;
};

HostCopies::HostCopies(std::shared_ptr<memory::Arena> arena,
                       std::shared_ptr<DeviceMemory> device_memory, std::function<void()> wake)
    : arena_(std::move(arena)),
      device_memory_(std::move(device_memory)),
      notifier_(std::make_shared<Notifier>(std::move(wake))) {}

HostCopies::~HostCopies() {
  notifier_->silence();
  if (!Gpu::any_in_use()) return;
  for (const auto& copy : copies_) try {
      if (copy->given_up)
        platform::abandon(copy);
      else if (!copy->done.load(std::memory_order_acquire))
        DeferredReleaser::retry([copy] { return copy->done.load(std::memory_order_acquire); });
    } catch (const std::exception&) {  // no memory: the copy is leaked
      new (std::nothrow) std::shared_ptr<Copy>(copy);
    }
}

void HostCopies::copy(const Range& range, OnCopied on_copied) {
  require_possible(range);
  const bool in_turn = waiting_.empty() || find(range);
  if (in_turn && serve(range, on_copied)) return;
  if (waiting_.size() >= kMaxWaiting)
    throw Error(Code::kOutOfMemory, "too many copies of device memory are waiting");
  waiting_.push_back({range, std::move(on_copied)});
}

void HostCopies::require_possible(const Range& range) const {
  const Gpu& device = device_memory_->device_of(range.block->segment());
  if (device.is_broken()) throw broken(device);
  const std::size_t budget = arena_->stats().budget_bytes;
  if (Copy::block_bytes(range.bytes + memory::kBlockAlignment) > budget)
    throw Error(Code::kOutOfMemory, "a copy of " + std::to_string(range.bytes) +
                                        " bytes of device memory exceeds the host budget of " +
                                        std::to_string(budget) +
                                        " bytes: raise budget_bytes (TENSORBUS_BUDGET)");
}

// Returns false if there is no room until other copies are unused.
bool HostCopies::serve(const Range& range, const OnCopied& on_copied) {
  std::shared_ptr<Copy> copy = find(range);
  if (!copy && !has_room_for(range)) return false;
  if (!copy) try {
      copy = begin(range);
    } catch (const Error& error) {
      if (error.code() != Code::kOutOfMemory || !any_in_use()) throw;
      return false;
    }
  copies_.splice(copies_.end(), copies_, std::find(copies_.begin(), copies_.end(), copy));
  if (copy->source)
    copy->waiting.push_back(on_copied);
  else
    on_copied(copied(*copy));  // deliver() saw that it is done
  return true;
}

bool HostCopies::any_in_use() const {
  return std::any_of(copies_.begin(), copies_.end(),
                     [](const auto& copy) { return copy->in_use(); });
}

bool HostCopies::has_room_for(const Range& range) const {
  std::size_t bytes = range.bytes;
  for (const auto& copy : copies_)
    if (copy->in_use()) bytes += copy->bytes;
  return bytes <= arena_->stats().budget_bytes / 2 || !any_in_use();
}

std::shared_ptr<HostCopies::Copy> HostCopies::begin(const Range& range) {
  const auto copy = copies_.emplace_back(make(range));  // listed before a stream writes to it
  try {
    start(*copy, range);
  } catch (...) {
    copies_.remove(copy);
    throw;
  }
  return copy;
}

// Serves waiting requests in order, until one has no room. That request stays first.
void HostCopies::serve_waiting() {
  for (; !waiting_.empty(); waiting_.pop_front()) {
    const Waiting& next = waiting_.front();
    try {
      require_possible(next.range);
      if (!serve(next.range, next.on_copied)) return;
    } catch (const Error& error) {
      next.on_copied(error);
    }
  }
}

std::shared_ptr<HostCopies::Copy> HostCopies::find(const Range& range) const {
  const auto found = std::find_if(copies_.begin(), copies_.end(),
                                  [&](const auto& copy) { return copy->is_of(range); });
  return found == copies_.end() ? nullptr : *found;
}

// If there are many unused copies, reuses the one that was unused for the longest time and fits.
std::shared_ptr<HostCopies::Copy> HostCopies::make(const Range& range) {
  const std::size_t bytes = range.bytes + memory::kBlockAlignment;
  const auto rests = [](const auto& copy) { return copy->rests() && !copy->source; };
  if (std::count_if(copies_.begin(), copies_.end(), rests) >= std::ptrdiff_t{kMaxResting}) {
    const auto oldest = std::find_if(copies_.begin(), copies_.end(), [&](const auto& copy) {
      return rests(copy) && copy->bytes >= bytes && copy->bytes / 4 <= bytes;
    });
    if (oldest != copies_.end()) {
      auto copy = std::move(*oldest);
      copies_.erase(oldest);
      return copy;
    }
  }
  const auto allocate = [&] {
    return arena_->allocate(Copy::block_bytes(bytes), memory::Grant::kRead);
  };
  try {
    return std::make_shared<Copy>(allocate(), bytes, notifier_);
  } catch (const Error& error) {
    if (error.code() != Code::kOutOfMemory) throw;
  }
  let_go(0);
  return std::make_shared<Copy>(allocate(), bytes, notifier_);
}

// If pinning is not possible, the driver copies through its own memory, and this thread waits.
void HostCopies::pin(Copy& copy, const Gpu& device) {
  if (!copy.pinned) try {
      copy.pinned.emplace(device, copy.pages);
    } catch (const Error& error) {
      if (error.code() != Code::kUnsupported && error.code() != Code::kOutOfMemory) throw;
    }
}

void HostCopies::start(Copy& copy, const Range& range) {
  const memory::Block& block = *range.block;
  const Gpu& device = device_memory_->device_of(block.segment());
  pin(copy, device);
  copy.segment = block.segment();
  copy.generation = block.generation();
  copy.write_mark = block.write_mark();
  copy.offset = range.offset;
  copy.length = range.bytes;
  copy.device = device.ordinal();
  copy.begin = range.offset % memory::kBlockAlignment;  // keeps the alignment of elements
  copy.done.store(false, std::memory_order_relaxed);
  copy.given_up = false;
  const GpuScope scope(device);
  const GpuStream& stream = stream_of(device);
  bool enqueued = false;
  const auto enqueue = [&] {
    stream.copy(copy.pages.data() + copy.begin, block.data() + (range.offset - block.offset()),
                range.bytes);
    enqueued = true;
    const auto on_done = [](void* argument) {
      auto& mine = *static_cast<Copy*>(argument);
      const std::shared_ptr<Notifier> notifier = mine.notifier;
      mine.done.store(true, std::memory_order_release);
      notifier->notify();
    };
    stream.call(on_done, &copy);
  };
  try {
    // Also notifies if the context breaks, so that no more work runs.
    const auto notify = [notifier = notifier_](const void*) { notifier->notify(); };
    device_memory_->marks().after_whole(stream, block, enqueue,
                                        std::shared_ptr<const void>(notifier_.get(), notify));
  } catch (...) {
    if (enqueued) stream.synchronize();  // the enqueued work still writes to the copy
    throw;
  }
  copy.source = range.block;
}

const GpuStream& HostCopies::stream_of(const Gpu& device) {
  return streams_.try_emplace(&device, device).first->second.get();
}

void HostCopies::deliver() {
  const auto copies = copies_;  // a copy of the list: callbacks may request more copies
  for (const auto& copy : copies) {
    if (!copy->source) continue;
    const Gpu& device = device_memory_->device_of(copy->segment);
    copy->given_up = device.is_broken();  // even if done: it is unknown what has run
    if (copy->given_up)
      tell(*copy, broken(device));
    else if (copy->done.load(std::memory_order_acquire))
      tell(*copy, copied(*copy));
    else
      continue;
    copy->source.reset();
  }
  let_go(kMaxResting);
  serve_waiting();
}

HostCopies::Copied HostCopies::copied(const Copy& copy) {
  const std::byte* const first = copy.pages.data() + copy.begin;
  return {
      .block = copy.block,
      .offset = copy.block->offset() + static_cast<std::size_t>(first - copy.block->data()),
      .device = copy.device,
      .use = std::shared_ptr<const void>(&copy.notifier, [notifier = copy.notifier](const void*) {
        notifier->notify();  // so that deliver() releases it
      })};
}

// A callback that threw std::bad_alloc is called again later.
void HostCopies::tell(Copy& copy, const Result& result) {
  for (; !copy.waiting.empty(); copy.waiting.pop_front()) try {
      copy.waiting.front()(result);
    } catch (const Error&) {  // the connection of this callback is broken; the others are not
    }
}

void HostCopies::let_go(std::size_t max_resting) {
  std::size_t count = 0;
  std::size_t bytes = 0;
  for (auto copy = copies_.end(); copy != copies_.begin();) {
    --copy;
    if (!(*copy)->rests() || (*copy)->source) continue;
    bytes += (*copy)->bytes;
    if (++count > max_resting || bytes > kMaxRestingBytes) copy = copies_.erase(copy);
  }
}

}  // namespace tensorbus::device
