#include "tensorbus/bus/service.hpp"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <utility>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {

Service::Service() : wake_(platform::make_event()) { poller_.add(wake_.get(), 0); }

Service::~Service() { stop(); }

Service::Tag Service::watch(int fd, Handler handler) {
  const std::lock_guard lock(mutex_);
  const Tag tag = next_tag_++;
  poller_.add(fd, tag);
  watched_.emplace(tag, Watched{std::make_shared<Handler>(std::move(handler))});
  return tag;
}

void Service::watch_writable(Tag tag, int fd, bool writable) {
  const std::lock_guard lock(mutex_);
  const auto found = watched_.find(tag);
  if (found == watched_.end()) return;
  found->second.interest.writable = writable;
  poller_.modify(fd, tag, found->second.interest);
}

void Service::watch_readable(Tag tag, int fd, bool readable) {
  const std::lock_guard lock(mutex_);
  const auto found = watched_.find(tag);
  if (found == watched_.end()) return;
  found->second.interest.readable = readable;
  poller_.modify(fd, tag, found->second.interest);
}

void Service::unwatch(Tag tag, int fd) noexcept {
  std::shared_ptr<Handler> handler;  // destroyed after the lock: it may own what calls us
  const std::lock_guard lock(mutex_);
  const auto found = watched_.find(tag);
  if (found == watched_.end()) return;
  handler = std::move(found->second.handler);
  watched_.erase(found);
  poller_.remove(fd);
}

void Service::post(Handler task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  platform::signal_event(wake_.get());
}

void Service::post_later(std::chrono::milliseconds delay, Handler task) {
  {
    const std::lock_guard lock(mutex_);
    timers_.push_back({Clock::now() + delay, std::move(task)});
  }
  platform::signal_event(wake_.get());
}

void Service::start() {
  // Signals are for the program's own threads: ours must not swallow their EINTR.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), "tensorbus");
}

void Service::stop() noexcept {
  if (!thread_.joinable()) return;
  // Relaxed: the eventfd orders it; the thread looks after every wake-up.
  stopping_.store(true, std::memory_order_relaxed);
  platform::signal_event(wake_.get());
  thread_.join();
}

void Service::run() {
  while (!stopping_.load(std::memory_order_relaxed)) turn(until_next_timer());
}

void Service::turn(std::chrono::milliseconds timeout) {
  for (const Tag tag : poller_.wait(timeout)) dispatch(tag);
  for (const Handler& task : take_due_tasks()) guarded(task);
}

void Service::dispatch(Tag tag) {
  if (tag == 0) return platform::clear_event(wake_.get());
  std::shared_ptr<Handler> handler;
  {
    const std::lock_guard lock(mutex_);
    const auto found = watched_.find(tag);
    if (found == watched_.end()) return;  // unwatched by a handler before this one
    handler = found->second.handler;
  }
  guarded(*handler);
}

void Service::guarded(const Handler& handler) {
  try {
    handler();
  } catch (const Error& error) {
    std::fprintf(stderr, "tensorbus: %s\n", error.what());
  }
}

std::vector<Service::Handler> Service::take_due_tasks() {
  const std::lock_guard lock(mutex_);
  std::vector<Handler> due = std::exchange(tasks_, {});
  const auto now = Clock::now();
  std::erase_if(timers_, [&](Timer& timer) {
    if (timer.at > now) return false;
    due.push_back(std::move(timer.task));
    return true;
  });
  return due;
}

std::chrono::milliseconds Service::until_next_timer() {
  const std::lock_guard lock(mutex_);
  if (timers_.empty()) return std::chrono::milliseconds(-1);
  const auto next = std::min_element(timers_.begin(), timers_.end(), [](auto& a, auto& b) {
                      return a.at < b.at;
                    })->at;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
  return std::max(left, std::chrono::milliseconds::zero());
}

}  // namespace tensorbus::bus
