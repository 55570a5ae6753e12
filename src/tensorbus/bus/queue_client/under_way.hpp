#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace tensorbus::bus {

// Counts requests from before they are sent until their replies, even if their callers have given
// up. Thread-safe.
class UnderWay {
 public:
  class Request {
   public:
    explicit Request(std::shared_ptr<std::atomic<std::size_t>> count) : count_(std::move(count)) {
      count_->fetch_add(1);
    }
    ~Request() { end(); }
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;
    // Marks the request as replied to. Only the first call counts.
    void end() noexcept {
      if (!ended_.exchange(true)) count_->fetch_sub(1);
    }

    // Returns a new request of the same counter, to follow this one.
    std::shared_ptr<Request> again() const { return std::make_shared<Request>(count_); }

   private:
    const std::shared_ptr<std::atomic<std::size_t>> count_;
    std::atomic<bool> ended_ = false;
  };

  std::shared_ptr<Request> begin() const { return std::make_shared<Request>(count_); }
  // Sequentially consistent: a thread that has begun a request sees its own count.
  bool any() const noexcept { return count_->load() != 0; }

 private:
  const std::shared_ptr<std::atomic<std::size_t>> count_ =
      std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace tensorbus::bus
