#include "call.hpp"

#include <unistd.h>

#include <atomic>
#include <map>
#include <string>
#include <utility>

namespace standin {
namespace {

struct Calls {
  std::mutex mutex;
  std::map<std::string, std::size_t> counts;
  std::map<std::pair<pid_t, std::string>, std::size_t>
      of_threads;  // not theirs: they may end first
  std::map<std::string, Failure> failures = settings().failures;
};

// Never destroyed: streams outlive main.
Calls& calls() {
  static Calls* const all = new Calls;
  return *all;
}

std::atomic<pid_t> initialized_by{0};
thread_local bool in_operation = false;

// Aborts if the interface does not have this name.
void require_symbol(const std::string& symbol) {
#define STANDIN_COMPARE(name, known, parameters) \
  if (symbol == #known) return;
  TENSORBUS_CUDA_FUNCTIONS(STANDIN_COMPARE)
#undef STANDIN_COMPARE
  fail_test("no function has the symbol " + symbol);
}

Result count_call(const char* symbol) {
  const std::lock_guard lock(calls().mutex);
  ++calls().counts[symbol];
  ++calls().of_threads[{::gettid(), symbol}];
  const auto wanted = calls().failures.find(symbol);
  if (wanted == calls().failures.end()) return Result::kSuccess;
  if (wanted->second.remaining_calls-- > 0) return Result::kSuccess;
  wanted->second.remaining_calls = 0;
  return static_cast<Result>(wanted->second.result);
}

}  // namespace

bool is_forked_child() {
  const pid_t process = initialized_by.load();
  return process != 0 && process != ::getpid();
}

Result admit_uninitialized(const char* symbol) {
  if (is_forked_child()) return Result::kNotInitialized;
  if (in_operation) return Result::kNotPermitted;
  return count_call(symbol);
}

Result admit(const char* symbol) {
  const Result refused = admit_uninitialized(symbol);
  if (refused != Result::kSuccess) return refused;
  return initialized_by.load() == 0 ? Result::kNotInitialized : Result::kSuccess;
}

void mark_initialized() { initialized_by.store(::getpid()); }

InOperation::InOperation() { in_operation = true; }
InOperation::~InOperation() { in_operation = false; }

extern "C" STANDIN_EXPORT void standin_fail(const char* symbol, int after_calls, int result) {
  require_symbol(symbol);
  const std::lock_guard lock(calls().mutex);
  calls().failures[symbol] = {after_calls, result};
}

extern "C" STANDIN_EXPORT std::size_t standin_calls(const char* symbol) {
  require_symbol(symbol);
  const std::lock_guard lock(calls().mutex);
  return calls().counts[symbol];
}

extern "C" STANDIN_EXPORT std::size_t standin_calls_here(const char* symbol) {
  require_symbol(symbol);
  const std::lock_guard lock(calls().mutex);
  return calls().of_threads[{::gettid(), symbol}];
}

}  // namespace standin
