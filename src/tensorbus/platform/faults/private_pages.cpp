#include "tensorbus/platform/faults/private_pages.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "tensorbus/platform/check.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/faults/page_calls.hpp"
#include "tensorbus/platform/faults/signal_message.hpp"
#include "tensorbus/platform/faults/write_handler.hpp"
#include "tensorbus/platform/files/mapping.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/platform/mutex.hpp"

// The code that runs in the signal handler calls only what the handler in bus_fault.cpp calls, and
// fstat. Lock order: tensors, ranges, kept_shared, mappings, the guards of files.

namespace tensorbus::platform {
namespace {

constinit AddressList<CopyOnWrite> tensors;
constinit AddressList<PrivateRange> ranges;
constinit AddressList<KeptShared> kept_shared;
constinit AddressList<CopyOnWriteMapping> mappings;
// Changed with the lock of `ranges` held. Relaxed: a thread sees the ranges of its own writes and
// of all writes that happen before.
constinit std::atomic<std::size_t> range_count{0};

void lock_all() noexcept TB_NO_THREAD_SAFETY_ANALYSIS {
  tensors.lock();
  ranges.lock();
  kept_shared.lock();
  mappings.lock();
  FileGuard::hold_for_fork();
}
void unlock_all() noexcept TB_NO_THREAD_SAFETY_ANALYSIS {
  FileGuard::let_go();
  mappings.unlock();
  kept_shared.unlock();
  ranges.unlock();
  tensors.unlock();
}
[[maybe_unused]] const int kRegistered = ::pthread_atfork(lock_all, unlock_all, unlock_all);

}  // namespace

class PrivatePages {
 public:
  enum class Mended { kYes, kNotOurs, kNoRoom, kPinned };
  static Mended mend(const void* address, std::string_view& topic) noexcept TB_REQUIRES(tensors);
  static bool has_small_blocks(const std::byte* address) noexcept;
  static bool is_its_file(const CopyOnWriteMapping& mapping) noexcept;
  static void make_all_private() noexcept;
  // Returns false, without any effect, if a record is needed and `spare` is empty.
  static bool end(CopyOnWrite& tensor, std::unique_ptr<PrivateRange> spare) noexcept;

 private:
  static Mended make_private(CopyOnWrite& tensor, const std::byte* page) noexcept
      TB_REQUIRES(tensors, ranges);
  static Bytes gap_at(const std::byte* page, Bytes pages) noexcept TB_REQUIRES(ranges);
  struct Made {
    Bytes pages{};  // now private; empty if there is no room
    bool copied = false;
  };
  static Made map_private(const CopyOnWriteMapping& mapping, Bytes pages,
                          const std::byte* page) noexcept;
  static PrivateRange* share_unused(Bytes pages) noexcept TB_REQUIRES(tensors, ranges);
  static bool share_again(const PrivateRange& range) noexcept TB_REQUIRES(ranges);
  static bool share_part(Bytes pages) noexcept;
  static bool map_shared(Bytes pages) noexcept;
  static bool map_own(const CopyOnWriteMapping& mapping, Bytes pages) noexcept;
  static const std::byte* whole_end(const CopyOnWriteMapping& mapping) noexcept;
};

PrivatePages::Mended PrivatePages::mend(const void* address, std::string_view& topic) noexcept {
  CopyOnWrite* const tensor = tensors.find(address);
  if (tensor == nullptr) return Mended::kNotOurs;
  topic = tensor->topic_;
  ranges.lock();
  const Mended mended = make_private(*tensor, page_of(address));
  ranges.unlock();
  return mended;
}

PrivatePages::Mended PrivatePages::make_private(CopyOnWrite& tensor,
                                                const std::byte* page) noexcept {
  // Another thread's handler was first, or the guard of a file replaced the page by zeros.
  if (ranges.find(page) != nullptr)
    return protect_pages({page, page_bytes()}, PROT_READ | PROT_WRITE) ? Mended::kYes
                                                                       : Mended::kNoRoom;
  const Bytes gap = gap_at(page, whole_pages(tensor.link_.memory));
  kept_shared.lock();
  const bool pinned = kept_shared.overlapping(gap) != nullptr;
  kept_shared.unlock();
  if (pinned) return Mended::kPinned;
  mappings.lock();
  const CopyOnWriteMapping* const mapping = mappings.find(page);
  const Made made = mapping == nullptr ? Made() : map_private(*mapping, gap, page);
  mappings.unlock();
  const Bytes pages = made.pages;
  if (pages.empty()) return mapping == nullptr ? Mended::kNotOurs : Mended::kNoRoom;
  tensor.pages_.copied |= made.copied;
  Bytes& own = tensor.pages_.link_.memory;
  if (own.empty()) {
    own = pages;
    ranges.add(tensor.pages_);
    range_count.fetch_add(1, std::memory_order_relaxed);
  } else {  // the pages between them are private until this tensor is destroyed
    own = between(std::min(own.data(), pages.data()), std::max(end_of(own), end_of(pages)));
  }
  return Mended::kYes;
}

// Returns the pages around `page` that are not private yet.
Bytes PrivatePages::gap_at(const std::byte* page, Bytes pages) noexcept {
  const std::byte* begin = pages.data();
  const std::byte* end = end_of(pages);
  for (const PrivateRange* other = ranges.overlapping(pages); other != nullptr;
       other = ranges.overlapping(pages, other)) {
    const Bytes taken = other->link_.memory;
    if (taken.data() > page)
      end = std::min(end, taken.data());
    else
      begin = std::max(begin, end_of(taken));
  }
  return between(begin, end);
}

bool PrivatePages::has_small_blocks(const std::byte* address) noexcept {
  mappings.lock();
  const CopyOnWriteMapping* const mapping = mappings.find(address);
  const bool small = mapping != nullptr && mapping->blocks_ == CopyOnWriteMapping::Blocks::kAnySize;
  mappings.unlock();
  return small;
}

bool PrivatePages::is_its_file(const CopyOnWriteMapping& mapping) noexcept {
  struct stat status{};  // a child may have closed the descriptor and reused its number
  return ::fstat(mapping.fd_, &status) == 0 && status.st_dev == mapping.device_ &&
         status.st_ino == mapping.inode_;
}

// Makes some of these pages private, among them `page`.
PrivatePages::Made PrivatePages::map_private(const CopyOnWriteMapping& mapping, Bytes pages,
                                             const std::byte* page) noexcept {
  if (!is_its_file(mapping)) return {copy_pages(pages) ? pages : Bytes(), true};
  if (mapping.guard_ == nullptr) return {map_own(mapping, pages) ? pages : Bytes()};
  if (!FileGuard::hold()) return {};
  Made made;
  // From `cut` on, the guard has mapped zero pages, which are private already.
  const std::byte* const cut = whole_end(mapping);
  if (page >= cut) {
    const Bytes rest = between(page, end_of(pages));
    if (protect_pages(rest, PROT_READ | PROT_WRITE)) made.pages = rest;
  } else {
    pages = between(pages.data(), std::min(end_of(pages), cut));
    if (map_own(mapping, pages)) made.pages = pages;
  }
  FileGuard::let_go();
  return made;
}

// Returns the end of the pages that come from the file.
const std::byte* PrivatePages::whole_end(const CopyOnWriteMapping& mapping) noexcept {
  const std::byte* const first = mapping.link_.memory.data();
  if (!mapping.guard_->broken()) return end_of(whole_pages(mapping.link_.memory));
  return page_of(first + mapping.guard_->intact_bytes());
}

// NORESERVE: often few of the pages are written to.
bool PrivatePages::map_own(const CopyOnWriteMapping& mapping, Bytes pages) noexcept {
  return map_pages(pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, mapping.fd_,
                   mapping.place_of(pages.data()));
}

bool PrivatePages::map_shared(Bytes pages) noexcept {
  mappings.lock();
  const CopyOnWriteMapping* const mapping = mappings.find(pages.data());
  bool done = mapping != nullptr && is_its_file(*mapping);
  const bool guarded = done && mapping->guard_ != nullptr;
  if (guarded) done = FileGuard::hold();
  const bool held = guarded && done;
  // The file is not mapped again over pages that a guard has replaced.
  if (held) done = whole_end(*mapping) >= end_of(pages);
  done = done &&
         map_pages(pages, PROT_READ, MAP_SHARED, mapping->fd_, mapping->place_of(pages.data()));
  if (held) FileGuard::let_go();
  mappings.unlock();
  return done;
}

// Returns false if the pages stay private. A private page that is dropped shows its file again.
bool PrivatePages::share_part(Bytes pages) noexcept {
  if (map_shared(pages)) return true;
  void* const first = const_cast<std::byte*>(pages.data());
  bool dropped = ::madvise(first, pages.size(), MADV_DONTNEED) == 0;
  if (!dropped)  // locked pages cannot be dropped
    dropped =
        ::munlock(first, pages.size()) == 0 && ::madvise(first, pages.size(), MADV_DONTNEED) == 0;
  check(dropped);  // otherwise the next sample here would show stale bytes
  return protect_pages(pages, PROT_READ);
}

// Shares the pages that no other range covers. Returns false if there is no room for the mapping.
bool PrivatePages::share_again(const PrivateRange& range) noexcept {
  if (range.copied) return true;  // the child has no file to share again
  const Bytes all = range.link_.memory;
  for (const std::byte* at = all.data(); at < end_of(all);) {
    if (const PrivateRange* const other = ranges.find(at)) {
      at = std::min(end_of(all), end_of(other->link_.memory));
      continue;
    }
    const Bytes gap = gap_at(at, all);
    if (!share_part(gap)) return false;
    at = end_of(gap);
  }
  return true;
}

bool PrivatePages::end(CopyOnWrite& tensor, std::unique_ptr<PrivateRange> spare) noexcept {
  PrivateRange* gone = nullptr;
  tensors.lock();
  if (range_count.load(std::memory_order_relaxed) != 0) {
    ranges.lock();
    PrivateRange& own = tensor.pages_;
    const bool wrote = !own.link_.memory.empty();
    if (wrote && !spare) {
      ranges.unlock();
      tensors.unlock();
      return false;
    }
    tensors.remove(tensor);
    if (wrote) {
      ranges.remove(own);
      spare->link_.memory = own.link_.memory;
      spare->copied = own.copied;
      spare->sample = own.sample;
      ranges.add(*spare.release());
    }
    gone = share_unused(whole_pages(tensor.link_.memory));
    ranges.unlock();
  } else {
    tensors.remove(tensor);
  }
  tensors.unlock();
  while (gone != nullptr) delete std::exchange(gone, gone->link_.older);
  return true;
}

// Returns the records of the ranges that are shared again, linked by `older`.
PrivateRange* PrivatePages::share_unused(Bytes pages) noexcept {
  PrivateRange* gone = nullptr;
  for (PrivateRange* range = ranges.overlapping(pages); range != nullptr;) {
    PrivateRange* const next = ranges.overlapping(pages, range);
    if (range->outlived && tensors.overlapping(range->link_.memory) == nullptr) {
      ranges.remove(*range);
      if (!share_again(*range)) {  // a later end() tries again
        ranges.add(*range);
        range = next;
        continue;
      }
      range_count.fetch_sub(1, std::memory_order_relaxed);
      range->link_.older = std::exchange(gone, range);
    }
    range = next;
  }
  return gone;
}

void PrivatePages::make_all_private() noexcept {
  constexpr Bytes kEverything{static_cast<const std::byte*>(nullptr), ~std::size_t{0}};
  tensors.lock();
  ranges.lock();
  for (CopyOnWrite* tensor = tensors.overlapping(kEverything); tensor != nullptr;
       tensor = tensors.overlapping(kEverything, tensor)) {
    const Bytes pages = whole_pages(tensor->link_.memory);
    for (const std::byte* at = pages.data(); at < end_of(pages);) {
      if (const PrivateRange* const range = ranges.find(at))
        at = end_of(range->link_.memory);
      else if (make_private(*tensor, at) != Mended::kYes)
        break;
    }
  }
  ranges.unlock();
  tensors.unlock();
}

// All locks were taken before the fork, and this is the only thread.
void make_private_in_child() noexcept {
  unlock_all();
  PrivatePages::make_all_private();
  look_for_write_handler();
}

// Not inlined, so that the message is off the stack before the previous handler is called.
[[gnu::noinline]] bool mend_write(const void* address, bool tells) noexcept {
  using Mended = PrivatePages::Mended;
  if (!tensors.lock_in_handler(kPatientAttempts)) return false;
  std::string_view topic;
  const Mended mended = PrivatePages::mend(address, topic);
  SignalMessage message;
  if (mended == Mended::kNoRoom || mended == Mended::kPinned) {
    message.text("tensorbus: a write to a tensor that was received");
    if (!topic.empty()) message.text(" from topic '").name(topic).text("'");
    message.text(
        mended == Mended::kPinned
            ? ". Its memory is pinned for a GPU (pin=True), so this process cannot have private "
              "copies of its pages: write to a copy (tensor.clone()). "
            : ", and there is no room for private copies of its pages: memory, the number of "
              "mappings (vm.max_map_count) or RLIMIT_DATA is used up. Release tensors that were "
              "written to, or raise the limit. ");
    message.text(kTurnedOff);
  }
  tensors.unlock();
  if (mended == Mended::kYes) return true;
  if (mended != Mended::kNotOurs && tells) message.write_to_stderr();
  return false;
}

CopyOnWriteMapping::CopyOnWriteMapping(std::span<const std::byte> memory, int fd,
                                       std::uint64_t offset, Blocks blocks,
                                       const FileGuard* guard) noexcept
    : link_{memory}, fd_(fd), offset_(offset), blocks_(blocks), guard_(guard) {
  struct stat status{};
  if (::fstat(fd, &status) == 0) {
    device_ = status.st_dev;
    inode_ = status.st_ino;
  }
  mappings.lock();
  mappings.add(*this);
  mappings.unlock();
}

CopyOnWriteMapping::~CopyOnWriteMapping() {
  mappings.lock();
  mappings.remove(*this);
  mappings.unlock();
}

CopyOnWrite::CopyOnWrite(std::span<const std::byte> memory, std::string_view topic,
                         std::uint64_t sample) noexcept
    : link_{memory}, topic_(topic) {
  pages_.sample = sample;
  install_write_handler();
  tensors.lock();
  tensors.add(*this);
  tensors.unlock();
}

CopyOnWrite::~CopyOnWrite() {
  if (PrivatePages::end(*this, nullptr)) return;
  // Allocated with no lock held. Without memory for it, std::terminate ends the process.
  auto spare = std::make_unique<PrivateRange>();
  spare->outlived = true;
  PrivatePages::end(*this, std::move(spare));
}

void CopyOnWrite::look_for_handler() noexcept { look_for_write_handler(); }

bool CopyOnWrite::is_possible(std::span<const std::byte> memory) noexcept {
  if (memory.size() >= page_bytes()) return true;
  return !PrivatePages::has_small_blocks(memory.data());
}

bool CopyOnWrite::is_private(std::span<const std::byte> memory) noexcept {
  if (range_count.load(std::memory_order_relaxed) == 0) return false;
  ranges.lock();
  const bool any = ranges.overlapping(memory) != nullptr;
  ranges.unlock();
  return any;
}

bool CopyOnWrite::is_of_another(std::span<const std::byte> memory, std::uint64_t sample) noexcept {
  if (range_count.load(std::memory_order_relaxed) == 0) return false;
  ranges.lock();
  const PrivateRange* range = ranges.overlapping(memory);
  while (range != nullptr && range->sample == sample) range = ranges.overlapping(memory, range);
  ranges.unlock();
  return range != nullptr;
}

bool CopyOnWrite::overlaps_another() const noexcept {
  tensors.lock();
  const CopyOnWrite* other = tensors.overlapping(link_.memory);
  while (other != nullptr && (other == this || other->pages_.sample == pages_.sample))
    other = tensors.overlapping(link_.memory, other);
  tensors.unlock();
  return other != nullptr;
}

std::shared_ptr<std::byte> CopyOnWrite::map_again(std::span<const std::byte> memory) {
  const Bytes pages = whole_pages(memory);
  mappings.lock();
  const CopyOnWriteMapping* const mapping = mappings.find(memory.data());
  const bool usable = mapping != nullptr && PrivatePages::is_its_file(*mapping);
  const int fd = usable ? mapping->fd_ : -1;
  const std::uint64_t offset = usable ? mapping->place_of(pages.data()) : 0;
  const bool guarded = usable && mapping->guard_ != nullptr;
  mappings.unlock();
  if (!usable) return nullptr;
  const auto before = static_cast<std::size_t>(memory.data() - pages.data());
  if (guarded) {  // a second mapping would need a guard of its own
    const auto copy = std::make_shared<std::byte[]>(memory.size());
    std::size_t got = 0;
    while (got < memory.size()) {  // bytes beyond the end of the file read as zeros
      const ssize_t some = ::pread(fd, copy.get() + got, memory.size() - got,
                                   static_cast<off_t>(offset + before + got));
      if (some <= 0) break;
      got += static_cast<std::size_t>(some);
    }
    return {copy, copy.get()};
  }
  const auto own =
      std::make_shared<const Mapping>(fd, pages.size(), Mapping::Access::kCopyOnWrite, offset);
  return {own, own->data() + before};
}

std::size_t CopyOnWrite::private_bytes() noexcept {
  constexpr Bytes kEverything{static_cast<const std::byte*>(nullptr), ~std::size_t{0}};
  std::size_t sum = 0;
  ranges.lock();
  for (const PrivateRange* range = ranges.overlapping(kEverything); range != nullptr;
       range = ranges.overlapping(kEverything, range))
    sum += range->link_.memory.size();
  ranges.unlock();
  return sum;
}

KeptShared::KeptShared(std::span<const std::byte> memory) : link_{memory} {
  ranges.lock();
  const bool any = ranges.overlapping(memory) != nullptr;
  if (!any) {
    kept_shared.lock();
    kept_shared.add(*this);
    kept_shared.unlock();
  }
  ranges.unlock();
  if (any)
    throw Error(Code::kUnsupported,
                "this memory cannot be pinned: it was written to, and this process has private "
                "copies of its pages");
}

KeptShared::~KeptShared() {
  kept_shared.lock();
  kept_shared.remove(*this);
  kept_shared.unlock();
}

}  // namespace tensorbus::platform
