#pragma once

#include <functional>
#include <utility>
#if __has_include(<stop_token>)  // libc++ has it since LLVM 18
#include <stop_token>
#endif

namespace tensorbus::inline v0 {

// The outcome of a call that may wait.
enum class Outcome {
  kDone,
  kTimedOut,
  kInterrupted,  // a signal handler ran, or GiveUp returned true; call again to continue
  kClosed,
  kHoldLimit,  // this subscriber holds max_held samples, and more are waiting
  kShutDown,   // the queue was shut down: it takes no items, and has none left
};

// A function that can end a waiting call. The call calls it at least ten times a second, and
// returns kInterrupted if the result is true. The call throws the exceptions of the function.
// Without a GiveUp, every signal that arrives while the call sleeps ends the call with
// kInterrupted. A std::stop_token is a GiveUp:
//
//   std::jthread worker([&](std::stop_token stop) {
//     while (auto sample = subscriber.receive(std::chrono::hours(1), stop)) use(*sample);
//   });
//   worker.request_stop();
class GiveUp : public std::function<bool()> {
 public:
  using std::function<bool()>::function;
#if defined(__cpp_lib_jthread)
  GiveUp(std::stop_token stop)
      : function([stop = std::move(stop)] { return stop.stop_requested(); }) {}
#endif
};

}  // namespace tensorbus::inline v0
