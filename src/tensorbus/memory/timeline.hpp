#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "tensorbus/platform/cuda_stream.hpp"
#include "tensorbus/platform/fd.hpp"

namespace tensorbus::memory {

// A point in the work of a stream: reached when a counter of a timeline is at least `value`. On the
// wire it is one number, 0 for none.
struct Mark {
  static constexpr int kValueBits = 54;
  static constexpr std::uint64_t kMostValue = (std::uint64_t{1} << kValueBits) - 1;

  std::uint32_t slot = 0;
  std::uint64_t value = 0;  // from 1 on; 0: no mark, which is always reached

  explicit operator bool() const noexcept { return value != 0; }
  std::uint64_t packed() const noexcept {
    return value == 0 ? 0 : std::uint64_t{slot} << kValueBits | value;
  }
  // Throws Error(kProtocol) for a slot that there is not.
  static Mark unpack(std::uint64_t packed);
  // Whatever it says.
  static constexpr Mark of(std::uint64_t packed) noexcept {
    return {static_cast<std::uint32_t>(packed >> kValueBits), packed & kMostValue};
  }
  bool operator==(const Mark&) const = default;
};

// Two pages of counters, on which the streams of two processes wait for one another (docs/cuda.md,
// "Order"). The lender's streams write the first page, the borrower's the second. Thread-safe.
class Timeline {
 public:
  static constexpr std::uint32_t kSlots = 512;
  static constexpr std::size_t kBytes = 2 * kSlots * sizeof(std::uint64_t);

  // The lender makes it ...
  Timeline();
  // ... and the borrower maps what it was sent. Throws Error(kProtocol).
  explicit Timeline(platform::Fd memfd);
  // Its memory, and what it keeps, lingers until our streams have no operation left that refers to
  // it: nobody waits for a GPU here.
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  const platform::Fd& memfd() const noexcept { return memfd_; }

  // A mark that is reached when all that is enqueued on the stream now has run. Throws
  // Error(kUnsupported) for a stream that is being captured, and for more than kSlots streams.
  Mark signal(const platform::CudaStream& stream);
  // What is enqueued on the stream from now on runs after the peer's mark is reached. Throws the
  // same.
  void wait(const platform::CudaStream& stream, Mark theirs);
  // The same for a mark of ours. The stream is to signal here afterwards, so that it is known when
  // it has waited.
  void wait_for_own(const platform::CudaStream& stream, Mark ours);
  // Acquire: what was done before the mark has been done.
  bool reached(Mark theirs) const noexcept;
  bool reached_own(Mark ours) const noexcept;
  // Keeps something for as long as our streams may have operations left, also beyond our end.
  void keep(std::shared_ptr<const void> what);
  // Lets go of what lingers and is done with. Timelines that are made or end do so too.
  static void sweep() noexcept;

  // The peer's process is dead: what it has not signalled it never will. Whoever waits goes on, and
  // marks that were not reached by now have failed. A second call does nothing.
  void peer_died() noexcept;
  bool failed(Mark theirs) const noexcept;

 private:
  using Counter = std::atomic<std::uint64_t>;
  static_assert(sizeof(Counter) == sizeof(std::uint64_t) && Counter::is_always_lock_free);
  struct Slot {
    std::uint32_t number = 0;
    std::uint64_t value = 0;
  };

  struct Memory;

  Timeline(platform::Fd memfd, std::size_t own_page);
  static void sweep(std::unique_ptr<Memory> ended) noexcept;
  Slot& slot_of(const platform::CudaStream& stream);
  void wait_at(const Counter& counter, const platform::CudaStream& stream, std::uint64_t value);

  platform::Fd memfd_;
  std::mutex mutex_;
  std::unique_ptr<Memory> memory_;
  std::map<platform::CudaStream, Slot> slots_;  // in our own page
  std::atomic<bool> peer_died_{false};
  std::array<std::uint64_t, kSlots> at_death_{};  // written once, before peer_died_
};

}  // namespace tensorbus::memory
