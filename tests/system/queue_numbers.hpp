#pragma once

// Items of queues that are numbers, with or without a tensor that shows if it is another one's.

#include <array>
#include <cstring>
#include <optional>

#include "tensorbus/bus/queue.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus::testing {

inline Outcome put_number(bus::Queue& queue, std::uint64_t number, bool with_tensor,
                          const platform::StopCondition& stop = kLong) {
  std::array<std::uint64_t, 64> words{};
  write_pattern(words, number);
  Message item{.tensors = {}, .fields = std::as_bytes(std::span(&number, 1))};
  if (with_tensor) item.tensors.push_back(TensorView::of(words.data(), {64}));
  return queue.put(item, stop);
}

// The number; nothing if the item is torn.
inline std::optional<std::uint64_t> number_of(const bus::Sample& item) {
  std::uint64_t number = 0;
  if (item.field_bytes().size() != sizeof number) return std::nullopt;
  std::memcpy(&number, item.field_bytes().data(), sizeof number);
  if (!item.tensors().empty() && seed_of(item) != number) return std::nullopt;
  return number;
}

}  // namespace tensorbus::testing
