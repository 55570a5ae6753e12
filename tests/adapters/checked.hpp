#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <tensorbus/tensorbus.hpp>
#include <thread>
#include <utility>

inline constexpr std::chrono::seconds kLong(30);

// Ends the program unless it holds.
#define CHECKED(holds)                                                 \
  do {                                                                 \
    if (!(holds)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #holds); \
      std::exit(1);                                                    \
    }                                                                  \
  } while (false)

// For what has no event to wait on.
template <typename Holds>
bool eventually(Holds holds) {
  const auto end = std::chrono::steady_clock::now() + kLong;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

// A topic with both of its ends here.
struct Topic {
  Topic() { CHECKED(publisher.wait_for_subscribers(1, kLong) == tensorbus::Outcome::kDone); }

  // What was published, received.
  template <typename Published>
  tensorbus::Tensor through(Published&& published) {
    publisher.publish(std::forward<Published>(published));
    return subscriber.receive(kLong).value().tensor();
  }
  // Nobody has anything any more that was published.
  bool gets_all_back() const {
    return eventually([&] { return publisher.stats().bytes_in_flight == 0; });
  }

  tensorbus::Publisher publisher{"topic"};
  tensorbus::Subscriber subscriber{"topic"};
};

// Does it throw an Error of this code?
template <typename Call>
bool refuses(tensorbus::Code code, Call call) {
  try {
    call();
  } catch (const tensorbus::Error& error) {
    return error.code() == code;
  }
  return false;
}
