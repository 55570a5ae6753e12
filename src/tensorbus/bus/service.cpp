#include "tensorbus/bus/service.hpp"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <new>
#include <system_error>
#include <utility>

#include "tensorbus/platform/limits.hpp"

namespace tensorbus::bus {
namespace {

using namespace std::chrono_literals;

constexpr auto kRestAtALimit = 20ms;
constexpr auto kSilence = 10s;

}  // namespace

Service::Service() : wake_(platform::make_event()) { poller_.add(wake_.get(), 0); }

Service::~Service() { stop(); }

Service::Tag Service::watch(int fd, Handler handler) {
  const std::lock_guard lock(mutex_);
  const Tag tag = next_tag_++;
  const auto entry =
      watched_.emplace(tag, Watched{std::make_shared<Handler>(std::move(handler)), fd, {}, {}})
          .first;
  try {
    poller_.add(fd, tag);
  } catch (...) {
    watched_.erase(entry);
    throw;
  }
  return tag;
}

void Service::watch_writable(Tag tag, int fd, bool writable) {
  const std::lock_guard lock(mutex_);
  const auto found = watched_.find(tag);
  if (found == watched_.end()) return;
  found->second.interest.writable = writable;
  if (!found->second.rests_until) poller_.modify(fd, tag, found->second.interest);
}

void Service::watch_readable(Tag tag, int fd, bool readable) {
  const std::lock_guard lock(mutex_);
  const auto found = watched_.find(tag);
  if (found == watched_.end()) return;
  found->second.interest.readable = readable;
  if (!found->second.rests_until) poller_.modify(fd, tag, found->second.interest);
}

void Service::unwatch(Tag tag, int fd) noexcept {
  std::shared_ptr<Handler> handler;  // destroyed after the lock: it may own what calls us
  const std::lock_guard lock(mutex_);
  const auto found = watched_.find(tag);
  if (found == watched_.end()) return;
  handler = std::move(found->second.handler);
  if (found->second.rests_until)
    --resting_;
  else
    poller_.remove(fd);
  watched_.erase(found);
}

void Service::post(Handler task) {
  Timers one;
  one.push_back({{}, std::move(task)});
  {
    const std::lock_guard lock(mutex_);
    tasks_.splice(tasks_.end(), one);
  }
  platform::signal_event(wake_.get());
}

void Service::post_later(std::chrono::milliseconds delay, Handler task) {
  Timers one;
  one.push_back({Clock::now() + delay, std::move(task)});
  {
    const std::lock_guard lock(mutex_);
    timers_.splice(timers_.end(), one);
  }
  platform::signal_event(wake_.get());
}

Service::Errand& Service::add_errand(Handler task) {
  const std::lock_guard lock(mutex_);
  return errands_.emplace_back(std::move(task));
}

void Service::ask(Errand& errand, std::chrono::milliseconds delay) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const auto at = Clock::now() + delay;
    if (!errand.at_ || *errand.at_ > at) errand.at_ = at;
  }
  platform::signal_event(wake_.get());
}

void Service::start() {
  // Signals are for the program's own threads: ours must not swallow their EINTR.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error_number = 0;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    error_number = error.code().value();
  } catch (const std::bad_alloc&) {
    error_number = ENOMEM;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error_number != 0)
    platform::throw_system("cannot start the thread of a participant", error_number,
                           platform::During::kThread);
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
  end_rests();
  for (Timers due = take_due_tasks(); !due.empty();) {
    if (guarded(due.front().task)) {
      due.pop_front();
      continue;
    }
    due.front().at = Clock::now() + kRestAtALimit;
    const std::lock_guard lock(mutex_);
    timers_.splice(timers_.end(), due, due.begin());
  }
  do_errands();
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
  if (!guarded(*handler)) rest(tag);
}

bool Service::guarded(const Handler& handler) {
  try {
    handler();
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) {
      tell_shortage(error.what());
      return false;
    }
    std::fprintf(stderr, "tensorbus: %s\n", error.what());
  } catch (const std::bad_alloc&) {
    tell_shortage("no memory for the books of the bus");
    return false;
  }
  return true;
}

// It may take long until there is room: a line now and then is enough.
void Service::tell_shortage(const char* what) {
  const auto now = Clock::now();
  if (now < silent_until_) return;
  silent_until_ = now + kSilence;
  std::fprintf(stderr, "tensorbus: %s (trying again until there is room)\n", what);
}

// What makes a descriptor ready is still there: without a rest we would turn in circles.
void Service::rest(Tag tag) {
  const std::lock_guard lock(mutex_);
  const auto found = watched_.find(tag);
  if (found == watched_.end() || found->second.rests_until) return;
  poller_.remove(found->second.fd);
  found->second.rests_until = Clock::now() + kRestAtALimit;
  ++resting_;
}

// The handlers are called whether there is something on the descriptor or not: one may have taken
// it off before it met the limit.
void Service::end_rests() {
  while (const auto tag = next_rested()) dispatch(*tag);
}

std::optional<Service::Tag> Service::next_rested() {
  const std::lock_guard lock(mutex_);
  if (resting_ == 0) return std::nullopt;
  const auto now = Clock::now();
  for (auto& [tag, watched] : watched_) {
    if (!watched.rests_until || *watched.rests_until > now) continue;
    try {
      poller_.add(watched.fd, tag, watched.interest);
    } catch (const std::exception&) {  // no memory for that either
      watched.rests_until = now + kRestAtALimit;
      continue;
    }
    watched.rests_until.reset();
    --resting_;
    return tag;
  }
  return std::nullopt;
}

Service::Timers Service::take_due_tasks() {
  const std::lock_guard lock(mutex_);
  Timers due = std::move(tasks_);
  tasks_.clear();
  const auto now = Clock::now();
  for (auto next = timers_.begin(); next != timers_.end();) {
    const auto timer = next++;
    if (timer->at <= now) due.splice(due.end(), timers_, timer);
  }
  return due;
}

void Service::do_errands() {
  std::unique_lock lock(mutex_);
  const auto now = Clock::now();
  for (Errand& errand : errands_) {
    if (!errand.at_ || *errand.at_ > now) continue;
    errand.at_.reset();
    lock.unlock();
    if (!guarded(errand.task_)) ask(errand, kRestAtALimit);
    lock.lock();
  }
}

std::chrono::milliseconds Service::until_next_timer() {
  const std::lock_guard lock(mutex_);
  auto next = Clock::time_point::max();
  for (const Timer& timer : timers_) next = std::min(next, timer.at);
  for (const Errand& errand : errands_) next = std::min(next, errand.at_.value_or(next));
  if (resting_ != 0)
    for (const auto& [tag, watched] : watched_)
      next = std::min(next, watched.rests_until.value_or(next));
  if (next == Clock::time_point::max()) return std::chrono::milliseconds(-1);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
  return std::max(left, std::chrono::milliseconds::zero());
}

}  // namespace tensorbus::bus
