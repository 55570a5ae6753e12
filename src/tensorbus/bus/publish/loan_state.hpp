#pragma once

#include <cstddef>
#include <memory>
#include <tensorbus/values/layout.hpp>

#include "tensorbus/bus/publish/loan.hpp"
#include "tensorbus/link/lease/published_sample.hpp"
#include "tensorbus/memory/block.hpp"

namespace tensorbus::bus {

struct LoanState {
  static constexpr const char* kMovedFrom = "this loan was published or moved from";
  // Set for persistent memory (see empty()), else null: keeps the participant alive, so that the
  // memory can still be shared and published.
  std::shared_ptr<Participant> home;
  // The sample to publish. Made with the loan, so that publish() allocates nothing for it.
  link::PublishedRef issued;
  Layout layout;
  ByteSpan span;  // of the layout
  std::byte* first = nullptr;
  Device device{};

  const memory::BlockRef& block() const noexcept { return *issued->blocks().begin(); }
};

}  // namespace tensorbus::bus
