#pragma once

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <system_error>
#include <tensorbus/internal/deadline.hpp>
#include <tensorbus/internal/fd.hpp>
#include <tensorbus/internal/server.hpp>
#include <tensorbus/values/error.hpp>
#include <thread>
#include <utility>

namespace tensorbus::inline v0 {
namespace internal {

// A thread that looks for a service, for calls that must not wait. It ends when the finder knows a
// service, when the search fails, or within 50 ms after the last Waiter has gone. A Waiter that
// comes in these 50 ms may see a search that is over without a result.
class ServiceSearch {
 public:
  // The finder must outlive this object. Throws Error(kSystem) if no thread or descriptor is left.
  explicit ServiceSearch(Finder& finder) {
    const NoSignals here;  // the thread inherits it: signals reach the threads of the program
    try {
      thread_ = std::thread([this, &finder] { run(finder); });
    } catch (const std::system_error& error) {
      throw Error(Code::kSystem, std::string("no thread to look for a service: ") + error.what());
    }
  }
  ServiceSearch(const ServiceSearch&) = delete;
  ServiceSearch& operator=(const ServiceSearch&) = delete;
  // No Waiter is left.
  ~ServiceSearch() {
    if (::getpid() == process_)
      thread_.join();
    else
      thread_.detach();  // a forked child has no such thread
  }

  // Stands for a call that waits for the search. `first`: the search was made for this call.
  class Waiter {
   public:
    Waiter(std::shared_ptr<ServiceSearch> search, bool first) : search_(std::move(search)) {
      if (!first) search_->waiting_.fetch_add(1, std::memory_order_relaxed);  // see waiting_
    }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;
    ~Waiter() { search_->waiting_.fetch_sub(1, std::memory_order_relaxed); }
    const ServiceSearch& operator*() const noexcept { return *search_; }
    const ServiceSearch* operator->() const noexcept { return search_.get(); }

   private:
    const std::shared_ptr<ServiceSearch> search_;
  };

  // Readable when the search is over, and from then on.
  int descriptor() const noexcept { return over_event_.get(); }
  bool over() const noexcept { return over_.load(std::memory_order_acquire); }  // pairs with run()
  // After over(): throws the error that ended the search, if any.
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  // As platform::SignalsBlocked, which the headers cannot include.
  class NoSignals {
   public:
    NoSignals() noexcept {
      sigset_t blocked;
      (void)::sigfillset(&blocked);
      for (const int fault : {SIGBUS, SIGSEGV, SIGILL, SIGFPE, SIGTRAP, SIGSYS})
        (void)::sigdelset(&blocked, fault);
      (void)::pthread_sigmask(SIG_SETMASK, &blocked, &before_);
    }
    ~NoSignals() { (void)::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    NoSignals(const NoSignals&) = delete;
    NoSignals& operator=(const NoSignals&) = delete;

   private:
    sigset_t before_{};
  };

  void run(Finder& finder) noexcept {
    try {
      (void)finder.found(Deadline(std::chrono::nanoseconds::max()),
                         [this] { return waiting_.load(std::memory_order_relaxed) == 0; });
    } catch (...) {
      failure_ = std::current_exception();
    }
    over_.store(true, std::memory_order_release);  // pairs with over()
    const std::uint64_t one = 1;
    (void)!::write(over_event_.get(), &one, sizeof one);
  }

  const pid_t process_ = ::getpid();
  // Counts the Waiters, the first one from the beginning. Relaxed: no other data depends on it.
  std::atomic<int> waiting_{1};
  std::atomic<bool> over_{false};
  std::exception_ptr failure_;  // written before over_
  Fd over_event_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd"};
  std::thread thread_;
};

}  // namespace internal
}  // namespace tensorbus::inline v0
