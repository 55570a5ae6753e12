// The lines of the core, for Python's logging. A thread of the bus must not wait for the GIL, since
// a thread that has it may wait for the bus. So lines are put on a list, and a thread, which lives
// as long as there are any, hands them to the logger "tensorbus.core". Not a pending call, as for
// keepers: it runs when the main thread next executes Python code, which may be hours later.
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

constexpr std::size_t kMostLines = 1000;  // more go to stderr

struct Line {
  std::int32_t level;
  std::string text;
};

// The mutex is held for moments, and never while waiting for the GIL. Never destroyed.
struct Lines {
  platform::Mutex mutex;
  std::vector<Line> waiting TB_GUARDED_BY(mutex);
  std::thread thread TB_GUARDED_BY(mutex);
  bool running TB_GUARDED_BY(mutex) = false;  // else the thread, if there is one, has ended
  bool ends TB_GUARDED_BY(mutex) = false;     // the interpreter: what comes now goes to stderr
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
  } catch (const std::exception&) {  // logging could not be imported, or a filter of it raised
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

// Returns false if the line has to go to stderr.
bool put_aside(std::int32_t level, const char* text) noexcept {
  try {
    const platform::MutexLock lock(lines->mutex);
    if (lines->ends || lines->waiting.size() == kMostLines) return false;
    lines->waiting.push_back({level, text});
    if (lines->running) return true;
    try {
      if (lines->thread.joinable()) lines->thread.join();  // it has nothing left to do
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

// The interpreter is about to end: all that came before is logged, and the thread gone.
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
// The thread is the parent's, and so are the lines: the parent logs them.
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
