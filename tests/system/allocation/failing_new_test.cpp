#include "failing_new.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>

namespace tensorbus::testing {
namespace {

enum class State { kOff, kOnce, kFromThenOn };

// Sequentially consistent throughout: speed does not matter here.
std::atomic<State> state{State::kOff};
std::atomic<bool> of_service{false};
std::atomic<std::size_t> left{0};  // allocations that still succeed
std::atomic<bool> failed{false};
thread_local bool armed_here = false;

bool fails() noexcept {
  const State now = state;
  if (now == State::kOff || armed_here == of_service) return false;
  std::size_t before = left;
  while (before != 0)
    if (left.compare_exchange_weak(before, before - 1)) return false;
  if (now == State::kOnce && state.exchange(State::kOff) == State::kOff) return false;
  failed = true;
  return true;
}

void* allocated(std::size_t bytes, std::size_t alignment) noexcept {
  if (fails()) return nullptr;
  bytes = (bytes + alignment - 1) / alignment * alignment;
  return alignment <= alignof(std::max_align_t) ? std::malloc(bytes == 0 ? 1 : bytes)
                                                : std::aligned_alloc(alignment, bytes);
}

void* allocated_or_throw(std::size_t bytes, std::size_t alignment) {
  if (void* memory = allocated(bytes, alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void fail_allocation(Whose whose, Fails how, std::size_t n) {
  armed_here = true;
  of_service = whose == Whose::kService;
  left = n;
  failed = false;
  state = how == Fails::kOnce ? State::kOnce : State::kFromThenOn;
}

bool allocation_failed() { return failed; }

bool stop_failing() {
  state = State::kOff;
  armed_here = false;
  return failed;
}

TEST(FailingNew, fails_the_allocation_it_is_told_to) {
  fail_allocation(Whose::kMine, Fails::kOnce, 1);
  const auto first = std::make_unique<int>(1);
  EXPECT_THROW(std::make_unique<int>(2), std::bad_alloc);
  const auto third = std::make_unique<int>(3);
  EXPECT_TRUE(stop_failing());
  fail_allocation(Whose::kMine, Fails::kFromThenOn, 0);
  EXPECT_EQ(new (std::nothrow) int, nullptr);
  EXPECT_EQ(new (std::align_val_t(64), std::nothrow) int, nullptr);
  EXPECT_TRUE(stop_failing());
}

TEST(FailingNew, leaves_other_threads_alone_unless_they_are_meant) {
  const auto elsewhere = [] {
    bool worked = false;
    std::thread([&] {
      void* const memory = ::operator new(1, std::nothrow);
      worked = memory != nullptr;
      ::operator delete(memory);
    }).join();
    return worked;
  };
  EXPECT_TRUE(elsewhere());
  fail_allocation(Whose::kService, Fails::kFromThenOn, 0);
  EXPECT_FALSE(elsewhere());
  const auto mine = std::make_unique<int>(1);
  EXPECT_TRUE(stop_failing());
}

}  // namespace tensorbus::testing

void* operator new(std::size_t bytes) { return tensorbus::testing::allocated_or_throw(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return tensorbus::testing::allocated_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return tensorbus::testing::allocated(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return tensorbus::testing::allocated(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
