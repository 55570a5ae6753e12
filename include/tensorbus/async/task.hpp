#pragma once

#include <version>
#if defined(__cpp_impl_coroutine)  // GCC 11, clang 17
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <tensorbus/sample.hpp>
#include <tensorbus/values/outcome.hpp>
#include <utility>

namespace tensorbus::inline v0 {

class Executor;
class Task;

namespace internal {

struct TaskPromise {
  Task get_return_object() noexcept;
  std::suspend_always initial_suspend() const noexcept { return {}; }
  std::suspend_always final_suspend() const noexcept { return {}; }
  void return_void() const noexcept {}
  [[noreturn]] void unhandled_exception() const { throw; }  // out of the call that resumed it

  Executor* executor = nullptr;
  std::uint64_t token = 0;  // of the task in its executor
};

}  // namespace internal

// A coroutine for Executor::spawn(), which runs it and destroys it. A function is one if it returns
// a Task and uses co_await or co_return:
//
//   tensorbus::Task track(tensorbus::Executor& executor, tensorbus::Subscriber images,
//                         tensorbus::Subscriber commands) {
//     const auto start = co_await executor.next(commands);
//     while (const auto image = co_await executor.next(images)) follow(*start, *image);
//   }
//
// Parameters are moved or copied into the coroutine, unless they are references: what these refer
// to must outlive it. The captures of a lambda are not moved into it, so pass parameters instead.
class Task {
 public:
  using promise_type = internal::TaskPromise;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

 private:
  friend class Executor;
  friend promise_type;
  explicit Task(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}

  std::coroutine_handle<promise_type> handle_;
};

namespace internal {

inline Task TaskPromise::get_return_object() noexcept {
  return Task(std::coroutine_handle<TaskPromise>::from_promise(*this));
}

// A wait of a task. It is part of the task's frame.
class Awaited {
 public:
  Awaited() = default;
  Awaited(const Awaited&) = delete;
  Awaited& operator=(const Awaited&) = delete;

  virtual int descriptor() const noexcept = 0;  // readable when look() may find the result
  // Returns true if the result, or an error, is there.
  bool look() noexcept {
    try {
      return find();
    } catch (...) {
      failure_ = std::current_exception();
      return true;
    }
  }
  // Returns the samples from which the task goes on, see Parents.
  virtual std::span<const Sample> parents() const noexcept { return {}; }

 protected:
  ~Awaited() = default;
  virtual bool find() = 0;
  void require_success() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::exception_ptr failure_;
};

// Waits for a sample or an item.
class AwaitedSample final : public Awaited {
 public:
  // `take` returns kTimedOut if there is nothing yet; `descriptor` is readable when it may find
  // something.
  AwaitedSample(std::function<Outcome(Sample&)> take, int descriptor)
      : take_(std::move(take)), descriptor_(descriptor) {}

  int descriptor() const noexcept override { return descriptor_; }
  std::span<const Sample> parents() const noexcept override {
    return {sample_ ? &*sample_ : nullptr, sample_ ? std::size_t{1} : 0};
  }
  std::optional<Sample> result() {
    require_success();
    return std::move(sample_);
  }

 private:
  bool find() override {
    Sample sample;
    const Outcome outcome = take_(sample);
    if (outcome == Outcome::kDone) sample_ = std::move(sample);
    return outcome != Outcome::kTimedOut;
  }

  std::function<Outcome(Sample&)> take_;
  int descriptor_;
  std::optional<Sample> sample_;
};

}  // namespace internal
}  // namespace tensorbus::inline v0
#endif
