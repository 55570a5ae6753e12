#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {

// Memory that Python reads, or fills: a received tensor, or a loan.
struct Memory {
  Layout layout;
  std::byte* first = nullptr;  // the first element
  bool writable = false;
  std::shared_ptr<void> owner;  // the lease or the loan
  std::string_view topic;       // of a received tensor; the owner keeps it
};

Memory memory_of(const Tensor& tensor, std::string_view topic);
Memory memory_of(Loan loan);
// Throws Error(kUnsupported) for a name that no dtype has.
Layout layout_named(const std::string& dtype, const std::vector<std::int64_t>& shape);

// Can PyTorch's own C interface make a tensor over this? Not if PyTorch is not known yet or too
// old, the element type has to be named afterwards, or there are flags.
bool can_be_plain_torch(const Memory& memory);
nb::object make_plain_torch(Memory memory);

}  // namespace tensorbus::python
