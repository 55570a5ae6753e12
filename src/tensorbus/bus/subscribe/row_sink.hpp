#pragma once

#include <cstddef>
#include <string>
#include <tensorbus/values/layout.hpp>

#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/link/lease/lease_source.hpp"
#include "tensorbus/link/ring/sample_ring.hpp"
#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::bus {

// Rows of an array of this process. Messages of one tensor with the dtype and shape of a row are
// copied into them, in order. Used by one thread.
class RowSink {
 public:
  // `rows`: the layout of the array. Throws Error(kInvalidArgument) unless the array is contiguous
  // and has memory and at least one row.
  RowSink(std::byte* first, const Layout& rows);

  std::size_t size() const noexcept { return size_; }
  std::size_t taken() const noexcept { return taken_; }
  bool full() const noexcept { return taken_ == size_; }

  // If the entry is one tensor that fits a row and lies in mapped host memory of the lender, copies
  // it and returns true. Otherwise changes nothing; SampleData::read() then reads the entry.
  bool take(link::LeaseSource& lender, const link::Entry& entry);
  // As above, for a sample that was read.
  bool take(const Sample& sample);
  // Returns the reason why take() has refused this sample.
  std::string refusal(const Sample& sample) const;

 private:
  bool is_row(const Layout& layout) const noexcept;

  const Layout row_;
  const std::size_t bytes_;  // of one row
  const std::size_t size_;
  std::byte* next_;
  std::size_t taken_ = 0;
  const tensor::LoneTensors same_;
};

}  // namespace tensorbus::bus
