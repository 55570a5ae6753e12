#pragma once

// What tests of services and clients share.

#include <poll.h>

#include "support.hpp"

namespace tensorbus::testing {

// Drives a service in a thread of its own, for as long as it lives.
class Serving {
 public:
  explicit Serving(Service service) {
    (void)executor_.serve(std::move(service));
    thread_ = std::jthread([this](std::stop_token stop) { executor_.run(stop); });  // now it has it
  }

 private:
  Executor executor_;
  std::jthread thread_;
};

inline Content echo(Content request) { return request; }

// Waits for a request, and serves it. False if none comes in a very long time.
[[nodiscard]] inline bool serve_one(Service& service) {
  return service.serve(kLong) == Outcome::kDone;
}

// A message of these fields alone.
class Note {
 public:
  explicit Note(const Value& fields) : bytes_(fields.encode()) { message_.fields = bytes_; }
  Note(const Note&) = delete;
  Note& operator=(const Note&) = delete;
  const Message& message() const noexcept { return message_; }

 private:
  std::vector<std::byte> bytes_;
  Message message_;
};

// An ordinary tensor of `count` floats: first, first + 1, and so on, in memory of the bus.
inline Loan floats(const Participant& participant, float first, std::int64_t count = 1000) {
  Loan loan = empty(Layout::contiguous(DType::kFloat32, {count}), false, participant);
  fill(loan.as<float>(), first);
  return loan;
}

}  // namespace tensorbus::testing
