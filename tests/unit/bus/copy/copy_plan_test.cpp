#include "tensorbus/bus/copy/copy_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace tensorbus::bus {
namespace {

// A message's tensors and their copies.
class Copied {
 public:
  explicit Copied(std::vector<TensorView> views) : views_(std::move(views)) {
    for (std::size_t i = 0; i < views_.size(); ++i)
      plan_.add(i, views_[i], span_of(views_[i].layout));
    block_.resize(plan_.lay_out());
    moved_bytes = plan_.fill(block_.data(), tensor::Stores::kOrdinary);
    streamed_.resize(block_.size());
    plan_.fill(streamed_.data(), tensor::Stores::kNonTemporal);
  }

  const CopyPlan::Copy& operator[](std::size_t tensor) const {
    return *std::ranges::find(plan_.copies(), tensor, &CopyPlan::Copy::tensor);
  }
  const std::byte* first(std::size_t tensor) const {
    const CopyPlan::Copy& copy = (*this)[tensor];
    return block_.data() + copy.place - span_of(copy.layout).begin;
  }
  std::size_t block_bytes() const { return block_.size(); }
  // Do all elements of all copies have the values of their originals, whichever stores wrote them?
  bool all_equal() const {
    if (streamed_ != block_) return false;
    for (std::size_t i = 0; i < views_.size(); ++i) {
      const Layout& layout = views_[i].layout;
      const Layout packed = Layout::contiguous(layout.dtype, layout.shape);
      std::vector<std::byte> original(packed.packed_bytes());
      std::vector<std::byte> copied(original.size());
      tensor::copy_elements(original.data(), packed, static_cast<const std::byte*>(views_[i].data),
                            layout, tensor::Stores::kOrdinary);
      tensor::copy_elements(copied.data(), packed, first(i), (*this)[i].layout,
                            tensor::Stores::kOrdinary);
      if (original != copied) return false;
    }
    return true;
  }

  std::size_t moved_bytes = 0;

 private:
  std::vector<TensorView> views_;
  CopyPlan plan_;
  std::vector<std::byte> block_;
  std::vector<std::byte> streamed_;  // the same
};

class Plan : public ::testing::Test {
 protected:
  Plan() { std::iota(numbers.begin(), numbers.end(), 0); }
  TensorView view(std::int64_t first, Dims shape, Dims strides) const {
    return {numbers.data() + first, {DType::kInt32, std::move(shape), std::move(strides)}};
  }
  std::vector<int> numbers = std::vector<int>(1'000'000);
};

TEST_F(Plan, tensors_that_are_apart_go_apart) {
  const Copied copied({view(0, {10}, {1}), view(500, {10}, {1}), view(10, {10}, {1})});
  EXPECT_TRUE(copied.all_equal());
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(copied[i].place % 64, 0U);
  EXPECT_EQ(copied.moved_bytes, 120U);
}

TEST_F(Plan, views_of_one_another_keep_their_distance_and_are_copied_once) {
  const Copied copied({view(10, {100}, {1}), view(20, {10}, {1}), view(109, {5}, {-2})});
  EXPECT_TRUE(copied.all_equal());
  EXPECT_EQ(copied.first(1) - copied.first(0), 40);
  EXPECT_EQ(copied.first(2) - copied.first(0), 396);
  EXPECT_EQ(copied.moved_bytes, 400U);
}

TEST_F(Plan, the_same_tensor_twice_is_copied_once) {
  const Copied copied({view(7, {100}, {1}), view(7, {100}, {1})});
  EXPECT_EQ(copied.first(0), copied.first(1));
  EXPECT_EQ(copied.moved_bytes, 400U);
  EXPECT_TRUE(copied.all_equal());
}

TEST_F(Plan, tensors_that_overlap_by_half_are_copied_each) {
  const Copied copied({view(0, {100}, {1}), view(50, {100}, {1})});
  EXPECT_EQ(copied.first(1) - copied.first(0), 200);
  EXPECT_TRUE(copied.all_equal());
}

TEST_F(Plan, a_view_with_holes_before_its_base_brings_only_its_own) {
  const Copied copied({view(0, {50, 2}, {4, 1}), view(2, {50, 2}, {4, 1}), view(0, {20}, {1})});
  EXPECT_TRUE(copied.all_equal()) << "none of the three has all that the others need";
}

TEST_F(Plan, elements_stay_as_well_aligned_as_they_were) {
  const auto* bytes = reinterpret_cast<const std::byte*>(numbers.data());
  for (std::size_t shift = 0; shift < 64; shift += 4) {
    const TensorView whole{bytes + shift, Layout::contiguous(DType::kUInt8, {256})};
    const TensorView part{bytes + shift + 64, Layout::contiguous(DType::kInt32, {4})};
    const Copied copied({whole, part});
    EXPECT_EQ(copied[0].place % 64, reinterpret_cast<std::uintptr_t>(whole.data) % 64);
    EXPECT_TRUE(copied.all_equal());
  }
}

TEST_F(Plan, columns_of_a_large_matrix_do_not_bring_the_matrix) {
  const Copied copied({view(0, {1000}, {1000}), view(1, {1000}, {1000})});
  EXPECT_LE(copied.block_bytes(), 8192U);
  EXPECT_TRUE(copied.all_equal());
}

TEST_F(Plan, any_views_of_one_buffer_arrive_with_their_values_and_distances) {
  std::mt19937 random(11);
  const auto up_to = [&](int most) { return std::uniform_int_distribution(0, most)(random); };
  for (int round = 0; round < 2000; ++round) {
    std::vector<TensorView> views;
    for (int i = up_to(6); i >= 0; --i) {
      Dims shape{1 + up_to(4), 1 + up_to(4)};
      Dims strides{up_to(12) - 6, up_to(12) - 6};
      views.push_back(view(200 + up_to(100), std::move(shape), std::move(strides)));
    }
    const Copied copied(views);
    ASSERT_TRUE(copied.all_equal());
    for (std::size_t i = 0; i < views.size(); ++i) {
      ASSERT_EQ(copied[i].layout.strides, views[i].layout.strides);
      for (std::size_t k = 0; k < i; ++k) {
        const ByteSpan a = copied[i].span;
        const ByteSpan b = copied[k].span;
        const auto apart = static_cast<const std::byte*>(views[i].data) -
                           static_cast<const std::byte*>(views[k].data);
        if (apart + a.begin < b.end && b.begin < apart + a.end) {
          ASSERT_EQ(copied.first(i) - copied.first(k), apart);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tensorbus::bus
