#pragma once

#include <tensorbus/c/status.h>

#include <new>
#include <tensorbus/values/stats.hpp>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::c {

// Stores the text for tb_error_message() and returns the status.
tb_status failed(Code code, const char* why) noexcept;

constexpr tb_status status_of(Outcome outcome) noexcept {
  return static_cast<tb_status>(outcome);  // same numbers in C
}
static_assert(status_of(Outcome::kDone) == TB_OK && status_of(Outcome::kTimedOut) == TB_TIMED_OUT &&
              status_of(Outcome::kInterrupted) == TB_INTERRUPTED &&
              status_of(Outcome::kClosed) == TB_CLOSED &&
              status_of(Outcome::kHoldLimit) == TB_HOLD_LIMIT &&
              status_of(Outcome::kShutDown) == TB_SHUT_DOWN);

// Returns the status of `work`, or the status for its exception: no exception may reach C.
template <typename Work>
tb_status guarded(Work work) noexcept {
  try {
    return work();
  } catch (const Error& error) {
    return failed(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return failed(Code::kOutOfMemory, "the process has no memory left (RLIMIT_AS, RLIMIT_DATA)");
  } catch (const std::exception& error) {
    return failed(Code::kSystem, error.what());
  }
}

// Like guarded(), for work that returns nothing: TB_OK unless it throws.
template <typename Work>
tb_status done(Work work) noexcept {
  return guarded([&] {
    work();
    return TB_OK;
  });
}

}  // namespace tensorbus::c
