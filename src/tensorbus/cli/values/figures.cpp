#include "tensorbus/cli/values/figures.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tensorbus/cli/values/half.hpp"
#include "tensorbus/cli/values/value_text.hpp"

namespace tensorbus::cli {
namespace {

constexpr std::size_t kMaxFirst = 8;   // elements that are shown of a large tensor
constexpr std::size_t kMaxWhole = 16;  // elements of a tensor that is shown in full

template <typename T>
constexpr bool kIsFloat =
    std::floating_point<T> || std::same_as<T, Half> || std::same_as<T, BrainFloat>;
template <typename T>
constexpr bool kIsComplex =
    std::same_as<T, std::complex<float>> || std::same_as<T, std::complex<double>>;

// Calls `visit` with an element of the type of the tensor's elements; not for types that are
// neither numbers of C++ nor floats of 16 bits.
template <typename Visit>
void with_type(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
      return visit(std::uint8_t{});
    case DType::kInt8:
      return visit(std::int8_t{});
    case DType::kUInt16:
      return visit(std::uint16_t{});
    case DType::kInt16:
      return visit(std::int16_t{});
    case DType::kUInt32:
      return visit(std::uint32_t{});
    case DType::kInt32:
      return visit(std::int32_t{});
    case DType::kUInt64:
      return visit(std::uint64_t{});
    case DType::kInt64:
      return visit(std::int64_t{});
    case DType::kFloat16:
      return visit(Half{});
    case DType::kBFloat16:
      return visit(BrainFloat{});
    case DType::kFloat32:
      return visit(float{});
    case DType::kFloat64:
      return visit(double{});
    case DType::kComplex64:
      return visit(std::complex<float>{});
    case DType::kComplex128:
      return visit(std::complex<double>{});
    default:
      return;
  }
}

// Calls `visit` with each element, in the order of its indices, until it returns false.
template <typename T>
void each_element(const Tensor& tensor, const std::function<bool(T)>& visit) {
  const Dims& shape = tensor.shape();
  const Dims& strides = tensor.strides();
  if (tensor.layout().elements() == 0) return;
  std::vector<std::int64_t> at(shape.size(), 0);
  std::int64_t offset = 0;  // in elements
  while (true) {
    T element{};
    std::memcpy(&element, tensor.data() + offset * static_cast<std::int64_t>(sizeof element),
                sizeof element);
    if (!visit(element)) return;
    std::size_t dim = shape.size();
    for (bool is_next = false; !is_next;) {
      if (dim-- == 0) return;
      is_next = at[dim] + 1 < shape[dim];
      offset += is_next ? strides[dim] : -strides[dim] * at[dim];
      at[dim] = is_next ? at[dim] + 1 : 0;
    }
  }
}

template <typename T>
Value value_of(T element, bool is_bool) {
  if constexpr (kIsComplex<T>) {
    return complex_text(element.real(), element.imag());
  } else if constexpr (kIsFloat<T>) {
    return static_cast<double>(element);
  } else if constexpr (std::signed_integral<T>) {
    return static_cast<std::int64_t>(element);
  } else {
    if (is_bool) return element != 0;
    return static_cast<std::uint64_t>(element);
  }
}

template <typename T>
void add_extent(Figures& figures, const Tensor& tensor) {
  if constexpr (!kIsComplex<T>) {
    Extent found{std::numeric_limits<double>::infinity(), 0,
                 -std::numeric_limits<double>::infinity()};
    long double sum = 0;
    std::uint64_t count = 0;
    std::uint64_t nan_count = 0;
    each_element<T>(tensor, [&](T element) {
      const auto number = static_cast<double>(element);
      if (std::isnan(number)) return ++nan_count != 0;
      found.min = std::min(found.min, number);
      found.max = std::max(found.max, number);
      sum += number;
      return ++count != 0;
    });
    figures.nan_count = nan_count;
    if (count == 0) return;
    found.mean = static_cast<double>(sum / static_cast<long double>(count));
    figures.extent = found;
  }
}

bool is_plain(const Tensor& tensor) {
  const TensorFlags flags = tensor.layout().flags;
  return tensor.device().is_host() && !has(flags, TensorFlags::kConjugate) &&
         !has(flags, TensorFlags::kNegative);
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape)
    text.append(text.empty() ? "" : ", ").append(std::to_string(size));
  return '(' + text + (shape.size() == 1 ? ",)" : ")");
}

}  // namespace

std::optional<Value> number_of(const std::string& dtype, const Value::Bytes& bytes) {
  // "<f4" is a float of four bytes; bool is "|b1".
  constexpr std::pair<std::string_view, DType> kNames[] = {
      {"|b1", DType::kBool},    {"|u1", DType::kUInt8},   {"|i1", DType::kInt8},
      {"<u2", DType::kUInt16},  {"<i2", DType::kInt16},   {"<u4", DType::kUInt32},
      {"<i4", DType::kInt32},   {"<u8", DType::kUInt64},  {"<i8", DType::kInt64},
      {"<f2", DType::kFloat16}, {"<f4", DType::kFloat32}, {"<f8", DType::kFloat64}};
  const auto* const name =
      std::ranges::find(kNames, dtype, &std::pair<std::string_view, DType>::first);
  std::optional<Value> number;
  if (name == std::end(kNames) || item_bytes(name->second) != bytes.size()) return number;
  with_type(name->second, [&]<typename T>(T element) {
    std::memcpy(&element, bytes.data(), sizeof element);
    number = value_of(element, name->second == DType::kBool);
  });
  return number;
}

Figures figures_of(const Tensor& tensor) {
  const Device device = tensor.device();
  Figures figures{
      .dtype = std::string(internal::kDTypes[static_cast<std::size_t>(tensor.dtype())].name),
      .shape = {tensor.shape().begin(), tensor.shape().end()},
      .device = device.is_host() ? "cpu" : "cuda:" + std::to_string(device.ordinal),
      .extent = {},
      .nan_count = {},
      .first = {}};
  if (!is_plain(tensor)) return figures;
  const std::size_t elements = tensor.layout().elements();
  with_type(tensor.dtype(), [&]<typename T>(T) {
    const std::size_t most = elements <= kMaxWhole ? kMaxWhole : kMaxFirst;
    if (elements != 0)
      each_element<T>(tensor, [&](T element) {
        figures.first.push_back(value_of(element, tensor.dtype() == DType::kBool));
        return figures.first.size() < most;
      });
    // A tensor whose elements share memory may have any number of them.
    const bool repeats = tensor.layout().packed_bytes() > span_of(tensor.layout()).bytes();
    if (elements != 0 && !repeats) add_extent<T>(figures, tensor);
  });
  return figures;
}

bool Figures::has_all() const {
  return static_cast<std::int64_t>(first.size()) ==
         std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies());
}

std::string Figures::text() const {
  std::string made = dtype + ' ' + shape_text(shape) + " on " + device;
  if (extent)
    made += ", min " + short_number_text(extent->min) + ", mean " +
            short_number_text(extent->mean) + ", max " + short_number_text(extent->max);
  if (nan_count) made += ", " + std::to_string(*nan_count) + " NaN";
  if (first.empty()) return made;
  made += ':';
  for (const Value& value : first)
    made += ' ' + (value.is<double>() ? short_number_text(value.as<double>()) : plain_text(value));
  return has_all() ? made : made + " ...";
}

}  // namespace tensorbus::cli
