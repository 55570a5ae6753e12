#pragma once

#include <functional>
#include <utility>
#if __has_include(<stop_token>)  // libc++ has it since LLVM 18
#include <stop_token>
#endif

namespace tensorbus::inline v0 {

// What became of a call that may wait.
enum class Outcome {
  kDone,
  kTimedOut,
  kInterrupted,  // a signal handler ran, or GiveUp said so; call again to go on
  kClosed,
  kHoldLimit,  // this subscriber holds max_held samples and there are more
};

// Asked at least ten times a second by a call that waits; true ends it with kInterrupted. Without
// one, every signal that arrives while the call is parked does. What it throws comes out of the
// call. A std::stop_token is one:
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
