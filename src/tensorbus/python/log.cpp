// Passes log lines of the core to Python's logging. A thread of the bus must not wait for the GIL,
// because a thread with the GIL may wait for the bus. So lines are added to a list. Another thread
// passes them to the logger "tensorbus.core", and ends when the list is empty. A pending call, as
// in keepers.cpp, is not enough: it runs when the main thread next executes Python code, which may
// be hours later.
#include "tensorbus/platform/log.hpp"

#include <pthread.h>

#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "tensorbus/platform/fork_guard.hpp"
#include "tensorbus/platform/immortal.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {
namespace {

constexpr std::size_t kMaxLines = 1000;  // waiting lines; further lines go to stderr

struct Line {
  std::int32_t level;
  std::string text;
};

// The mutex is held briefly, and never while waiting for the GIL. Never destroyed.
struct Lines {
  platform::Mutex mutex;
  std::vector<Line> waiting TB_GUARDED_BY(mutex);
  std::thread thread TB_GUARDED_BY(mutex);
  bool running TB_GUARDED_BY(mutex) = false;  // if false, there is no thread, or it is ending
  bool ends TB_GUARDED_BY(mutex) = false;     // the interpreter ends: new lines go to stderr
};
platform::Immortal<Lines> lines;

constexpr auto kInfo = static_cast<std::int32_t>(platform::LogLevel::kInfo);

const char* name_of(std::int32_t level) noexcept {
  if (level <= kInfo) return "INFO";
  return level >= static_cast<std::int32_t>(platform::LogLevel::kError) ? "ERROR" : "WARNING";
}

void to_stderr(std::int32_t level, const char* text) noexcept {
  if (level != kInfo) platform::log_to_stderr(text);
}

void hand_over(const Line& line) noexcept {
  try {
    const nb::str text = text_of(line.text, "backslashreplace");
    const auto logging = nb::module_::import_("logging");
    logging.attr("getLogger")("tensorbus.core")
        .attr("log")(logging.attr(name_of(line.level)), "%s", text);
  } catch (const std::exception&) {  // the import of logging failed, or a filter raised
    to_stderr(line.level, line.text.c_str());
  }
}

void hand_over_all() {
  for (std::vector<Line> taken;; taken.clear()) {
    {
      const platform::MutexLock lock(lines->mutex);
      std::swap(taken, lines->waiting);
      lines->running = !taken.empty();
      if (!lines->running) return;
    }
    const nb::gil_scoped_acquire gil;
    for (const Line& line : taken) hand_over(line);
  }
}

// Returns false if the line must go to stderr.
bool put_aside(std::int32_t level, const char* text) noexcept {
  try {
    const platform::MutexLock lock(lines->mutex);
    if (lines->ends || lines->waiting.size() == kMaxLines) return false;
    lines->waiting.push_back({level, text});
    if (lines->running) return true;
    try {
      if (lines->thread.joinable()) lines->thread.join();  // it is ending
      lines->thread = std::thread(hand_over_all);
      lines->running = true;
      return true;
    } catch (const std::system_error&) {
      lines->waiting.pop_back();
    }
  } catch (const std::bad_alloc&) {
  }
  return false;
}

void take_line(void*, std::int32_t level, const char* text) noexcept {
  if (!put_aside(level, text)) to_stderr(level, text);
}

// Called before the interpreter ends. Waits until all earlier lines are logged and the thread has
// ended.
void log_the_rest() {
  std::thread last;
  {
    const platform::MutexLock lock(lines->mutex);
    lines->ends = true;
    last = std::move(lines->thread);
  }
  const WithoutGil release;
  if (last.joinable()) last.join();
}

void lock_lines() noexcept TB_ACQUIRE(lines->mutex) { lines->mutex.lock(); }
void unlock_lines() noexcept TB_RELEASE(lines->mutex) { lines->mutex.unlock(); }
// Called in a forked child: the thread and the lines belong to the parent, which logs them.
void forget_lines() noexcept TB_RELEASE(lines->mutex) {
  if (lines->thread.joinable()) platform::abandon(std::move(lines->thread));
  lines->waiting.clear();
  lines->running = false;
  lines->mutex.unlock();
}

}  // namespace

void bind_log(nb::module_&) {
  ::pthread_atfork(lock_lines, unlock_lines, forget_lines);
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(log_the_rest));
  platform::set_log(take_line, nullptr);
}

}  // namespace tensorbus::python
