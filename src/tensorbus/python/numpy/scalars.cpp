#include "tensorbus/python/numpy/scalars.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "tensorbus/python/numpy/numpy.hpp"

namespace tensorbus::python {
namespace {

constexpr std::int8_t kRecord = 3;

struct alignas(16) ScalarBytes : std::array<std::byte, 16> {};

}  // namespace

bool pack_numpy_scalar(nb::handle value, internal::PackWriter& writer) {
  const Numpy* const numpy = known_numpy();
  if (numpy == nullptr || numpy->api == nullptr) return false;
  const Numpy::Kind* const kind = numpy->kind_of_scalar(Py_TYPE(value.ptr()));
  if (kind == nullptr) return false;
  ScalarBytes bytes{};
  numpy->function<numpy_abi::ScalarAsCtype>(numpy_abi::kScalarAsCtype)(value.ptr(), &bytes);
  const std::size_t begin = writer.size();
  writer.write_list_of(3);
  writer.write(std::string_view("numpy.scalar"));
  writer.write(std::string_view(kind->code));
  writer.write(std::span<const std::byte>(bytes).first(item_bytes(kind->dtype)));
  writer.wrap(begin, kRecord);
  return true;
}

nb::object make_numpy_scalar(std::string_view code, std::span<const std::byte> bytes) {
  const Numpy* const numpy = known_numpy();
  if (numpy == nullptr || numpy->api == nullptr) return {};
  const auto kind =
      std::ranges::find_if(numpy->kinds, [&](const auto& one) { return one.code == code; });
  if (kind == numpy->kinds.end() || bytes.size() != item_bytes(kind->dtype)) return {};
  ScalarBytes copy{};
  std::memcpy(&copy, bytes.data(), bytes.size());
  const auto make = numpy->function<numpy_abi::Scalar>(numpy_abi::kScalar);
  return checked(make(&copy, kind->descr, nullptr));
}

}  // namespace tensorbus::python
