#pragma once

#include <tensorbus/c/status.h>

#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <tensorbus/internal/deadline.hpp>
#include <tensorbus/values/error.hpp>
#include <tensorbus/values/outcome.hpp>

// Calls the C interface from C++: statuses become outcomes and errors, objects get owners, and an
// exception of a callback is thrown after the call.
namespace tensorbus::inline v0 {
namespace internal {

// C has the same errors, counted from -1 down.
constexpr Code code_of(tb_status status) noexcept {
  const bool known = status >= TB_ERROR_TYPE_MISMATCH;  // else the library is newer
  return known ? static_cast<Code>(-1 - status) : Code::kSystem;
}
static_assert(code_of(TB_ERROR_INVALID_ARGUMENT) == Code::kInvalidArgument &&
              code_of(TB_ERROR_TYPE_MISMATCH) == Code::kTypeMismatch);

[[noreturn]] inline void throw_failure(tb_status status) {
  if (status > 0)
    throw Error(Code::kVersionMismatch,
                "the loaded libtensorbus is newer than this program: unknown status " +
                    std::to_string(status));
  throw Error(code_of(status), tb_error_message());
}

// Returns the outcome, or throws the Error of the failed call.
inline Outcome outcome_of(tb_status status) {
  static_assert(static_cast<tb_status>(Outcome::kShutDown) == TB_SHUT_DOWN);
  if (status < TB_OK || status > TB_SHUT_DOWN) throw_failure(status);
  return static_cast<Outcome>(status);  // the numbers are the same in C
}

inline void require_done(tb_status status) {
  if (status != TB_OK) throw_failure(status);
}

template <auto destroy>
struct Destroy {
  void operator()(auto* object) const noexcept { destroy(object); }
};
template <typename Object, auto destroy>
using Owned = std::unique_ptr<Object, Destroy<destroy>>;

// Returns the object that `create(&pointer)` makes.
template <typename Owner, typename Create>
Owner created(Create create) {
  typename Owner::pointer object = nullptr;
  require_done(create(&object));
  return Owner(object);
}

// Throws Error(kClosed) for a moved-from object.
template <typename Owner>
auto* living(const Owner& owner, const char* what) {
  if (!owner) throw Error(Code::kClosed, std::string("this ") + what + " was moved from");
  return owner.get();
}

// Returns the text for C. Throws Error(kInvalidArgument) if it contains a zero byte.
inline const char* c_text(const std::string& text, const char* what) {
  if (text.find('\0') != std::string::npos)
    throw Error(Code::kInvalidArgument, std::string(what) + " has a zero byte in it");
  return text.c_str();
}
inline const char* c_text_or_null(const std::string& text, const char* what) {
  return text.empty() ? nullptr : c_text(text, what);
}

// Holds an exception of a callback, which ends the call, and rethrows it after C has returned.
class Caught {
 public:
  // Returns the result of `body`, or 1 if it throws.
  template <typename Body>
  int held(Body body) noexcept {
    try {
      return body();
    } catch (...) {
      thrown_ = std::current_exception();
      return 1;
    }
  }
  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  std::exception_ptr thrown_;
};

// Passes a GiveUp to C.
class Asked {
 public:
  explicit Asked(const GiveUp& give_up) : give_up_(give_up), c_give_up_{&Asked::ask, this} {}
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

  // Returns NULL if there is no function.
  const tb_give_up* get() const noexcept { return give_up_ ? &c_give_up_ : nullptr; }
  // Called with the status of the call to which get() was passed.
  tb_status ended(tb_status status) const {
    caught_.rethrow();
    return status;
  }

 private:
  static int ask(void* context) noexcept {
    auto& self = *static_cast<Asked*>(context);
    return self.caught_.held([&] { return self.give_up_() ? 1 : 0; });
  }

  const GiveUp& give_up_;
  tb_give_up c_give_up_;
  Caught caught_;
};

// Calls `call(timeout)`, which takes no GiveUp, in slices, with `give_up` between them. Without
// `give_up`, calls it once.
template <typename Call>
tb_status in_slices(std::chrono::nanoseconds timeout, const GiveUp& give_up, Call call) {
  if (!give_up) return call(timeout.count());
  static constexpr std::chrono::milliseconds kSlice(50);
  const Deadline deadline(timeout);
  while (true) {
    const tb_status status = call(deadline.remaining(kSlice).count());
    const bool goes_on = status == TB_TIMED_OUT || status == TB_INTERRUPTED;
    if (!goes_on || (status == TB_TIMED_OUT && deadline.passed())) return status;
    if (give_up()) return TB_INTERRUPTED;
  }
}

// Calls `call(timeout)`, which waits. Without `give_up`, calls it again when a signal has ended the
// wait.
template <typename Call>
Outcome despite_signals(std::chrono::nanoseconds timeout, const GiveUp& give_up, Call call) {
  const Deadline deadline(timeout);
  Outcome outcome = call(timeout);
  while (outcome == Outcome::kInterrupted && !give_up)
    outcome = call(deadline.remaining(std::chrono::nanoseconds::max()));
  return outcome;
}

}  // namespace internal
}  // namespace tensorbus::inline v0
