#pragma once

// Memory of other allocators in tests of what is lent where it lies.

#include <atomic>
#include <functional>

#include "ends.hpp"

namespace tensorbus::testing {

using standin::DevicePtr;
using standin::test::kChunkBytes;

inline constexpr std::size_t kBytes = kWords * 8;

// Memory of an allocator of the test's, which is freed when its keeper is let go of.
class Foreign {
 public:
  // By cudaMalloc.
  static Foreign allocated(std::size_t bytes) {
    DevicePtr address = 0;
    EXPECT_OK(standin::cuMemAlloc_v2(&address, bytes));
    return {address, [address] { EXPECT_OK(standin::cuMemFree_v2(address)); }};
  }
  // Of a pool, and in the order of a stream.
  static Foreign pooled(std::size_t bytes, standin::MemoryPool pool, Stream stream = nullptr) {
    DevicePtr address = 0;
    EXPECT_OK(standin::cuMemAllocFromPoolAsync(&address, bytes, pool, stream));
    return {address, [=] { EXPECT_OK(standin::cuMemFreeAsync(address, stream)); }};
  }
  // So many chunks of cuMemCreate, one behind the other.
  static Foreign chunked(std::size_t chunks, standin::HandleType type) {
    DevicePtr address = 0;
    EXPECT_OK(standin::cuMemAddressReserve(&address, chunks * kChunkBytes, 0, 0, 0));
    standin::AllocationProp wanted;
    wanted.type = standin::AllocationType::kPinned;
    wanted.location = {standin::LocationType::kDevice, 0};
    wanted.requested_handle_types = type;
    const standin::AccessDesc access{wanted.location, standin::AccessFlags::kReadWrite};
    for (std::size_t i = 0; i < chunks; ++i) {
      standin::AllocationHandle handle = 0;
      EXPECT_OK(standin::cuMemCreate(&handle, kChunkBytes, &wanted, 0));
      EXPECT_OK(standin::cuMemMap(address + i * kChunkBytes, kChunkBytes, 0, handle, 0));
      EXPECT_OK(standin::cuMemRelease(handle));
    }
    EXPECT_OK(standin::cuMemSetAccess(address, chunks * kChunkBytes, &access, 1));
    return {address, [address, chunks] {
              EXPECT_OK(standin::cuMemUnmap(address, chunks * kChunkBytes));
              EXPECT_OK(standin::cuMemAddressFree(address, chunks * kChunkBytes));
            }};
  }

  TensorView view(const TestStream& stream, std::size_t offset, std::size_t words = kWords) const {
    TensorView view = TensorView::of(at(offset), {static_cast<std::int64_t>(words)});
    view.device = Device::cuda();
    view.stream = stream.get();
    view.keeper = keeper_;
    return view;
  }
  std::uint64_t* at(std::size_t offset) const {
    return reinterpret_cast<std::uint64_t*>(address_ + offset);
  }
  void write(const TestStream& stream, std::uint64_t seed, std::size_t offset,
             std::size_t words = kWords) const {
    stream.launch([to = std::span(at(offset), words), seed] { write_pattern(to, seed); });
  }
  bool freed() const { return *freed_; }
  // Now only its readers keep it.
  void let_go() { keeper_.reset(); }

 private:
  Foreign(DevicePtr address, std::function<void()> free)
      : address_(address),
        keeper_(freed_.get(), [free = std::move(free), freed = freed_](const void*) {
          const standin::test::Session session;  // whichever thread this is
          free();
          *freed = true;
        }) {}

  DevicePtr address_;
  std::shared_ptr<std::atomic<bool>> freed_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<const void> keeper_;
};

inline void publish(Writer& w, const Foreign& memory, std::uint64_t seed, std::size_t offset = 0,
                    std::size_t words = kWords) {
  memory.write(w.stream, seed, offset, words);
  ASSERT_EQ(w.publisher.publish(memory.view(w.stream, offset, words)).outcome, Outcome::kDone);
}

inline void expect_next(Reader& r, std::uint64_t seed) {
  const bus::Sample sample = r.next();
  const Found found = read_on(r.stream, sample.tensor());
  r.stream.synchronize();
  EXPECT_EQ(*found, seed);
}

// A pool of this process's, on device 0.
inline standin::MemoryPool new_pool(standin::HandleType type = standin::HandleType::kPosixFd) {
  const standin::test::Session session;
  standin::MemPoolProps wanted;
  wanted.type = standin::AllocationType::kPinned;
  wanted.handle_types = type;
  wanted.location = {standin::LocationType::kDevice, 0};
  standin::MemoryPool pool = nullptr;
  EXPECT_OK(standin::cuMemPoolCreate(&pool, &wanted));
  return pool;
}

using MakeMemory = std::function<Foreign()>;
inline Foreign allocation() { return Foreign::allocated(8 * kBytes); }
inline Foreign pooled() { return Foreign::pooled(8 * kBytes, new_pool()); }
inline Foreign chunks() { return Foreign::chunked(3, standin::HandleType::kPosixFd); }

}  // namespace tensorbus::testing
