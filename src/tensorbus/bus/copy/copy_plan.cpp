#include "tensorbus/bus/copy/copy_plan.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace tensorbus::bus {
namespace {

constexpr std::size_t kTensorAlignment = 64;
constexpr std::size_t kMaxExpected = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

const std::byte* first_of(const CopyPlan::Copy& copy) {
  return static_cast<const std::byte*>(copy.view->data);
}
const std::byte* begin_of(const CopyPlan::Copy& copy) { return first_of(copy) + copy.span.begin; }
const std::byte* end_of(const CopyPlan::Copy& copy) { return first_of(copy) + copy.span.end; }

// Returns true if the copy includes every byte from its first to its last.
bool is_dense(const CopyPlan::Copy& copy) {
  return copy.span.bytes() <= copy.view->layout.packed_bytes();
}

}  // namespace

void CopyPlan::add(std::size_t tensor, const TensorView& view, ByteSpan span,
                   std::size_t expected) {
  if (copies_.empty()) copies_.reserve(std::min(expected, kMaxExpected));
  copies_.push_back({tensor, &view, span, {}, 0, false});
}

// Sorts by ascending address; at the same address the longest copy comes first, because it may
// cover the others.
void CopyPlan::sort() {
  const auto goes_before = [](const Copy& a, const Copy& b) {
    return begin_of(a) != begin_of(b) ? begin_of(a) < begin_of(b) : end_of(a) > end_of(b);
  };
  if (std::is_sorted(copies_.begin(), copies_.end(), goes_before)) return;
  // Moves each copy once, since it is large.
  std::vector<Copy*> order;
  order.reserve(copies_.size());
  for (Copy& copy : copies_) order.push_back(&copy);
  std::sort(order.begin(), order.end(),
            [&](const Copy* a, const Copy* b) { return goes_before(*a, *b); });
  std::vector<Copy> sorted;
  sorted.reserve(copies_.size());
  for (Copy* const copy : order) sorted.push_back(std::move(*copy));
  copies_ = std::move(sorted);
}

std::size_t CopyPlan::lay_out() {
  sort();
  for (std::size_t first = 0; first < copies_.size();) {
    const std::byte* end = end_of(copies_[first]);
    std::size_t last = first + 1;
    for (; last < copies_.size() && begin_of(copies_[last]) < end; ++last)
      end = std::max(end, end_of(copies_[last]));
    if (last - first == 1)
      lay_out_alone(copies_[first]);
    else
      lay_out_together(std::span(copies_).subspan(first, last - first));
    first = last;
  }
  return bytes_;
}

void CopyPlan::lay_out_alone(Copy& copy) {
  copy.layout = tensor::layout_of_copy(copy.view->layout);
  copy.place = bytes_;
  bytes_ += aligned(span_of(copy.layout).bytes());
}

void CopyPlan::lay_out_together(std::span<Copy> overlapping) {
  const std::byte* begin = begin_of(overlapping.front());
  const std::byte* end = begin;
  std::size_t packed = 0;
  for (const Copy& copy : overlapping) {
    end = std::max(end, end_of(copy));
    packed += copy.view->layout.packed_bytes();
  }
  const auto hull = static_cast<std::size_t>(end - begin);
  if (!tensor::holes_are_cheap(hull, packed)) {
    for (Copy& copy : overlapping) lay_out_alone(copy);  // for example columns of a matrix
    return;
  }
  // Keeps the distance from an alignment boundary, so that elements keep their alignment.
  const std::size_t place = bytes_ + reinterpret_cast<std::uintptr_t>(begin) % kTensorAlignment;
  const Copy* cover = nullptr;
  for (Copy& copy : overlapping) {
    copy.layout = copy.view->layout;
    copy.place = place + static_cast<std::size_t>(begin_of(copy) - begin);
    copy.covered = cover != nullptr && end_of(copy) <= end_of(*cover);
    if (!copy.covered && is_dense(copy)) cover = &copy;
  }
  bytes_ = aligned(place + hull);
}

std::size_t CopyPlan::fill(std::byte* block, tensor::Stores stores) const {
  std::size_t moved = 0;
  for (const Copy& copy : copies_) {
    if (copy.covered) continue;
    std::byte* first = block + copy.place - span_of(copy.layout).begin;
    tensor::copy_elements(first, copy.layout, first_of(copy), copy.view->layout, stores);
    moved += std::min(copy.span.bytes(), copy.view->layout.packed_bytes());
  }
  return moved;
}

}  // namespace tensorbus::bus
