#include "tensorbus/bus/event_loop/event_loop.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <new>
#include <system_error>

#include "tensorbus/bus/event_loop/turn.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/platform/log.hpp"
#include "tensorbus/platform/threads/signals_blocked.hpp"

namespace tensorbus::bus {
namespace {

using namespace std::chrono_literals;

constexpr auto kRestAtALimit = 20ms;
constexpr auto kSilence = 10s;

constexpr int kMaxSoon = 64;
constexpr int kRounds = 8;  // enough to read a full socket, 64 messages at a time
constexpr int kTries = 64;  // attempts to begin a turn here while another thread is in one

}  // namespace

EventLoop::EventLoop() : wake_(platform::make_event()), kick_(platform::make_event()) {
  outer_.add(wake_.get(), kWake);
  outer_.add(poller_.fd(), kPoller);
  poller_.add(kick_.get(), kKick);
}

EventLoop::~EventLoop() { stop(); }

EventLoop::Tag EventLoop::watch(int fd, Handler handler) {
  const platform::MutexLock lock(mutex_);
  const Tag tag = next_tag_++;
  const auto entry =
      watched_
          .emplace(tag, Watched{std::make_shared<Handler>(std::move(handler)), fd, {}, {}, {tag}})
          .first;
  try {
    poller_.add(fd, tag);
  } catch (...) {
    watched_.erase(entry);
    throw;
  }
  return tag;
}

void EventLoop::watch_writable(Tag tag, int fd, bool writable) {
  const platform::MutexLock lock(mutex_);
  const auto found = watched_.find(tag);
  if (found == watched_.end()) return;
  found->second.interest.writable = writable;
  if (!found->second.paused_until) poller_.modify(fd, tag, found->second.interest);
}

void EventLoop::watch_readable(Tag tag, int fd, bool readable) {
  const platform::MutexLock lock(mutex_);
  const auto found = watched_.find(tag);
  if (found == watched_.end()) return;
  found->second.interest.readable = readable;
  if (!found->second.paused_until) poller_.modify(fd, tag, found->second.interest);
}

void EventLoop::unwatch(Tag tag, int fd) noexcept {
  std::shared_ptr<Handler> handler;  // destroyed after the unlock: it may own the caller
  const platform::MutexLock lock(mutex_);
  const auto found = watched_.find(tag);
  if (found == watched_.end()) return;
  handler = std::move(found->second.handler);
  if (found->second.paused_until)
    --paused_;
  else
    poller_.remove(fd);
  if (found->second.soon.empty()) soon_.remove(tag);
  watched_.erase(found);
}

void EventLoop::dispatch_soon(Tag tag) noexcept {
  {
    const platform::MutexLock lock(mutex_);
    const auto found = watched_.find(tag);
    if (found == watched_.end()) return;
    soon_.splice(soon_.end(), found->second.soon);
    any_soon_.store(true, std::memory_order_release);  // pairs with take_soon()
  }
  if (!is_in_turn()) platform::signal_event(wake_.get());
}

// Acquire: pairs with dispatch_soon().
std::optional<EventLoop::Tag> EventLoop::take_soon() {
  if (!any_soon_.load(std::memory_order_acquire)) return std::nullopt;
  const platform::MutexLock lock(mutex_);
  std::optional<Tag> tag;
  if (!soon_.empty()) {
    tag = soon_.front();
    std::list<Tag>& home = watched_.find(*tag)->second.soon;
    home.splice(home.end(), soon_, soon_.begin());
  }
  any_soon_.store(!soon_.empty(), std::memory_order_relaxed);  // changed with the lock held
  return tag;
}

// Also runs handlers that these handlers request, up to a limit, because the thread may be a
// program's.
void EventLoop::run_soon() {
  for (int i = 0; i < kMaxSoon; ++i) {
    const auto tag = take_soon();
    if (!tag) return;
    dispatch(*tag);
  }
  platform::signal_event(wake_.get());
}

void EventLoop::post(Handler task) {
  Timers one;
  one.push_back({{}, std::move(task)});
  {
    const platform::MutexLock lock(mutex_);
    posted_.splice(posted_.end(), one);
  }
  platform::signal_event(wake_.get());
}

bool EventLoop::is_in_turn() const noexcept {
  return running_.load(std::memory_order_relaxed) == std::this_thread::get_id();
}

bool EventLoop::try_lock_turn() noexcept {
  for (int i = 0; i < kTries; ++i) {
    if (turn_.try_lock()) return true;
    std::this_thread::yield();
  }
  return false;
}

bool EventLoop::dispatch_ready() {
  const auto ready = poller_.wait(std::chrono::milliseconds(0));
  for (const Tag tag : ready) dispatch(tag);
  return std::ranges::any_of(ready, [](Tag tag) { return tag != kKick; });
}

void EventLoop::run_or_post(Handler task, bool after_messages) {
  if (is_in_turn() || !try_lock_turn()) return post(std::move(task));
  const Turn turn(*this, std::adopt_lock);
  // Relaxed: as in stop(). The task is dropped, as by post().
  if (stopping_.load(std::memory_order_relaxed)) return;
  for (int i = 0; after_messages && i < kRounds && dispatch_ready(); ++i) run_soon();
  Timers due = take_posted();
  due.push_back({{}, std::move(task)});
  run_tasks(std::move(due));
  run_soon();
}

bool EventLoop::run_now(void (*work)(const void*), const void* with, bool after_messages) {
  if (is_in_turn() || !try_lock_turn()) return false;
  const Turn turn(*this, std::adopt_lock);
  return run_here(work, with, after_messages);
}

bool EventLoop::run_in_turn(void (*work)(const void*), const void* with) {
  if (is_in_turn()) return false;
  if (!try_lock_turn()) turn_.lock();
  const Turn turn(*this, std::adopt_lock);
  return run_here(work, with);
}

bool EventLoop::run_here(void (*work)(const void*), const void* with, bool after_messages) {
  if (stopping_.load(std::memory_order_relaxed)) return false;  // as in run_or_post()
  for (int i = 0; after_messages && i < kRounds && dispatch_ready(); ++i) run_soon();
  try {
    work(with);
  } catch (...) {
    platform::signal_event(wake_.get());  // the loop's own thread runs the requested handlers
    throw;
  }
  run_soon();
  return true;
}

void EventLoop::post_later(std::chrono::milliseconds delay, Handler task) {
  Timers one;
  one.push_back({Clock::now() + delay, std::move(task)});
  {
    const platform::MutexLock lock(mutex_);
    timers_.splice(timers_.end(), one);
  }
  platform::signal_event(wake_.get());
}

EventLoop::Task& EventLoop::add_task(Handler task) {
  const platform::MutexLock lock(mutex_);
  return tasks_.emplace_back(std::move(task));
}

void EventLoop::schedule(Task& task, std::chrono::milliseconds delay) noexcept {
  {
    const platform::MutexLock lock(mutex_);
    const auto at = Clock::now() + delay;
    if (task.at_ && *task.at_ <= at) return;  // scheduled early enough
    task.at_ = at;
  }
  platform::signal_event(wake_.get());
}

void EventLoop::start(const Handler& first) {
  int error_number = 0;
  try {
    const platform::SignalsBlocked guard;  // the program's threads need EINTR
    thread_ = std::thread([this, first] {
      if (first) first();
      run();
    });
  } catch (const std::system_error& error) {
    error_number = error.code().value();
  } catch (const std::bad_alloc&) {
    error_number = ENOMEM;
  }
  if (error_number != 0)
    platform::throw_system("cannot start the thread of a participant", error_number,
                           platform::During::kThread);
  pthread_setname_np(thread_.native_handle(), "tensorbus");
}

void EventLoop::stop() noexcept {
  if (!thread_.joinable()) return;
  // Relaxed: the eventfd orders it; the thread checks after every wake-up.
  stopping_.store(true, std::memory_order_relaxed);
  platform::signal_event(wake_.get());
  thread_.join();
}

void EventLoop::run() {
  while (!stopping_.load(std::memory_order_relaxed)) turn(until_next_timer());
}

void EventLoop::turn(std::chrono::milliseconds timeout) {
  bool any = false;
  for (const Tag tag : outer_.wait(timeout)) {
    if (tag == kWake) platform::clear_event(wake_.get());
    if (tag == kPoller) any = true;
  }
  const Turn turn(*this);
  if (any) dispatch_ready();
  resume_paused();
  run_tasks(take_due());
  run_due_tasks();
  run_soon();
}

void EventLoop::run_tasks(Timers due) {
  while (!due.empty()) {
    if (guarded(due.front().task)) {
      due.pop_front();
      continue;
    }
    due.front().at = Clock::now() + kRestAtALimit;
    {
      const platform::MutexLock lock(mutex_);
      timers_.splice(timers_.end(), due, due.begin());
    }
    platform::signal_event(wake_.get());  // the loop may sleep longer
  }
}

void EventLoop::dispatch(Tag tag) {
  if (tag == kKick) return;  // it has ended the wait of the Driver, which clears it
  std::shared_ptr<Handler> handler;
  {
    const platform::MutexLock lock(mutex_);
    const auto found = watched_.find(tag);
    if (found == watched_.end()) return;  // an earlier handler unwatched it
    handler = found->second.handler;
  }
  if (!guarded(*handler)) pause(tag);
}

bool EventLoop::guarded(const Handler& handler) {
  try {
    handler();
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) {
      report_shortage(error.what());
      return false;
    }
    platform::log(platform::LogLevel::kError, error.what());
  } catch (const std::bad_alloc&) {
    report_shortage("out of memory for internal bookkeeping");
    return false;
  }
  return true;
}

// A shortage may last long: one line from time to time is enough.
void EventLoop::report_shortage(const char* what) {
  const auto now = Clock::now();
  if (now < silent_until_) return;
  silent_until_ = now + kSilence;
  std::array<char, 1024> text;  // there may be no memory for a string
  std::snprintf(text.data(), text.size(), "%s (trying again until there is room)", what);
  platform::log(platform::LogLevel::kWarning, text.data());
}

// The descriptor is still ready: without a pause the loop would spin.
void EventLoop::pause(Tag tag) {
  const platform::MutexLock lock(mutex_);
  const auto found = watched_.find(tag);
  if (found == watched_.end() || found->second.paused_until) return;
  poller_.remove(found->second.fd);
  found->second.paused_until = Clock::now() + kRestAtALimit;
  ++paused_;
  platform::signal_event(wake_.get());  // the loop's own thread, which resumes it, may sleep
}

// Calls the handlers even if the descriptor is not ready: a handler may have read from it before it
// met the limit.
void EventLoop::resume_paused() {
  while (const auto tag = next_paused()) dispatch(*tag);
}

std::optional<EventLoop::Tag> EventLoop::next_paused() {
  const platform::MutexLock lock(mutex_);
  if (paused_ == 0) return std::nullopt;
  const auto now = Clock::now();
  for (auto& [tag, watched] : watched_) {
    if (!watched.paused_until || *watched.paused_until > now) continue;
    try {
      poller_.add(watched.fd, tag, watched.interest);
    } catch (const std::exception&) {  // no memory for this either
      watched.paused_until = now + kRestAtALimit;
      continue;
    }
    watched.paused_until.reset();
    --paused_;
    return tag;
  }
  return std::nullopt;
}

EventLoop::Timers EventLoop::take_posted() {
  const platform::MutexLock lock(mutex_);
  return std::exchange(posted_, {});
}

EventLoop::Timers EventLoop::take_due() {
  Timers due = take_posted();
  const platform::MutexLock lock(mutex_);
  const auto now = Clock::now();
  Timers timed;
  for (auto next = timers_.begin(); next != timers_.end();) {
    const auto timer = next++;
    if (timer->at <= now) timed.splice(timed.end(), timers_, timer);
  }
  timed.sort([](const Timer& one, const Timer& other) { return one.at < other.at; });
  due.splice(due.end(), timed);
  return due;
}

void EventLoop::run_due_tasks() {
  const platform::MutexLock lock(mutex_);
  const auto now = Clock::now();
  for (Task& task : tasks_) {
    if (!task.at_ || *task.at_ > now) continue;
    task.at_.reset();
    const platform::MutexUnlock unlocked(mutex_);
    if (!guarded(task.task_)) schedule(task, kRestAtALimit);
  }
}

std::chrono::milliseconds EventLoop::until_next_timer() {
  const platform::MutexLock lock(mutex_);
  auto next = Clock::time_point::max();
  for (const Timer& timer : timers_) next = std::min(next, timer.at);
  for (const Task& task : tasks_) next = std::min(next, task.at_.value_or(next));
  if (paused_ != 0)
    for (const auto& [tag, watched] : watched_)
      next = std::min(next, watched.paused_until.value_or(next));
  if (next == Clock::time_point::max()) return std::chrono::milliseconds(-1);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
  return std::max(left, std::chrono::milliseconds::zero());
}

}  // namespace tensorbus::bus
