#pragma once

#include <cstddef>

#include "tensorbus/bus/fork_safe.hpp"
#include "tensorbus/bus/loan.hpp"
#include "tensorbus/memory/block.hpp"

namespace tensorbus {

struct LoanState {
  memory::BlockRef block;
  Layout layout;
  std::byte* first = nullptr;
  Device device{};
};

struct Loan::Impl {
  bus::ForkSafe<LoanState> state;

  // `block` is large enough for the layout.
  static Loan of(memory::BlockRef block, const Layout& layout, Device device = Device::host());
};

}  // namespace tensorbus
