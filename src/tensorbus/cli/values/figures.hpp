#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tensorbus/tensor.hpp>
#include <tensorbus/values/value.hpp>
#include <vector>

namespace tensorbus::cli {

// The minimum, mean and maximum of the elements that are not NaN.
struct Extent {
  double min = 0;
  double mean = 0;
  double max = 0;
};

// What is shown of a tensor. On a GPU, and for types that C++ cannot compute with, only the first
// three are known.
struct Figures {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string device;
  std::optional<Extent> extent;
  std::optional<std::uint64_t> nan_count;
  std::vector<Value> first;  // all elements of a small tensor, else the first ones

  // Returns a field of `extent`, if it is known.
  std::optional<double> known(double Extent::* field) const {
    return extent ? std::optional((*extent).*field) : std::nullopt;
  }
  bool has_all() const;      // whether `first` has all elements
  std::string text() const;  // "uint8 (480, 640) on cpu, min 0, mean 117.25, max 255, 0 NaN: 1 ..."
};

Figures figures_of(const Tensor& tensor);

// Returns a number of NumPy: `dtype` is its text, such as "<f4". Nothing for other types.
std::optional<Value> number_of(const std::string& dtype, const Value::Bytes& bytes);

}  // namespace tensorbus::cli
