#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <tensorbus/values/layout.hpp>
#include <tensorbus/values/outcome.hpp>
#include <utility>
#include <vector>

#include "cpp_api/bus_calls.hpp"

namespace bench {

inline constexpr int kBatch = 64;

template <typename Call>
double ns_per_call(Call call) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kBatch; ++i) call();
  const auto end = std::chrono::steady_clock::now();
  return std::chrono::duration<double, std::nano>(end - begin).count() / kBatch;
}

inline double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Publisher, Subscriber, ...: of one of the two.
template <typename Publisher, typename Subscriber, typename Sample, typename Participant>
CallTimes timed(const Participant& participant, int batches) {
  using namespace tensorbus;
  Publisher publisher("calls", {.depth = kBatch, .reliable = true}, participant);
  Subscriber subscriber("calls", {}, participant);
  if (publisher.wait_for_subscribers(1, std::chrono::seconds(10)) != Outcome::kDone)
    throw std::runtime_error("no subscriber came");
  const Layout layout = Layout::contiguous(DType::kUInt8, {64});
  std::vector<double> publishing;
  std::vector<double> receiving;
  for (int batch = 0; batch < batches; ++batch) {
    publishing.push_back(ns_per_call([&] {
      auto loan = publisher.loan(layout);
      loan.data()[0] = std::byte{1};
      publisher.publish(std::move(loan));
    }));
    receiving.push_back(ns_per_call([&] {
      Sample sample;
      if (subscriber.receive(sample, std::chrono::seconds(10)) != Outcome::kDone ||
          sample.tensor().data()[0] != std::byte{1})
        throw std::runtime_error("a sample was lost");
    }));
  }
  return {median(publishing), median(receiving)};
}

}  // namespace bench
