// What holds of std::mdspan over tensors, where the C++ library has it.
#include <array>
#include <cstdint>
#include <mdspan>
#include <numeric>
#include <tensorbus/tensorbus.hpp>
#include <type_traits>

#include "../checked.hpp"

namespace {

using tensorbus::ArrayView;
using tensorbus::Code;

void elements_are_the_same() {
  Topic topic;
  tensorbus::Loan loan = topic.publisher.loan<std::int32_t>({2, 3, 4});
  const auto written = loan.view<std::int32_t, 3>().mdspan();
  std::int32_t next = 0;
  for (std::int64_t i = 0; i < written.extent(0); ++i)
    for (std::int64_t j = 0; j < written.extent(1); ++j)
      for (std::int64_t k = 0; k < written.extent(2); ++k) written[i, j, k] = next++;
  const tensorbus::Tensor tensor = topic.through(std::move(loan));
  const auto read = tensor.view<std::int32_t, 3>().mdspan();
  static_assert(std::is_same_v<decltype(read)::element_type, const std::int32_t>);
  CHECKED((read[1, 2, 3]) == 23 && (read[1, 0, 2]) == 14);
  CHECKED(read.stride(0) == 12 && read.stride(2) == 1);
}

void strides_are_kept_and_those_that_it_lacks_are_refused() {
  std::array<float, 12> numbers{};
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  const auto columns = ArrayView<float, 2>(numbers.data(), {4, 3}, {1, 4}).mdspan();
  CHECKED((columns[1, 2]) == 9);
  const auto one_row = ArrayView<float, 2>(numbers.data(), {1, 3}, {0, 1}).mdspan();
  CHECKED((one_row[0, 2]) == 2);
  const auto empty = ArrayView<float, 2>(numbers.data(), {0, 3}, {0, 1}).mdspan();
  CHECKED(empty.size() == 0);
  const auto scalar = ArrayView<float, 0>(numbers.data(), {}, {}).mdspan();
  const std::array<int, 0> nowhere{};
  CHECKED(scalar[nowhere] == 0);
  const ArrayView<float, 1> reversed(numbers.data() + 11, {12}, {-1});
  CHECKED(refuses(Code::kInvalidArgument, [&] { (void)reversed.mdspan(); }));
  const ArrayView<float, 2> repeated(numbers.data(), {3, 4}, {0, 1});
  CHECKED(refuses(Code::kInvalidArgument, [&] { (void)repeated.mdspan(); }));
}

}  // namespace

int main() {
  elements_are_the_same();
  strides_are_kept_and_those_that_it_lacks_are_refused();
}
