#pragma once

#include <cstddef>
#include <memory>

#include "tensorbus/bus/event_loop/fork_safe.hpp"
#include "tensorbus/bus/publish/loan.hpp"
#include "tensorbus/link/lease/published_sample.hpp"
#include "tensorbus/memory/block.hpp"

namespace tensorbus {

namespace bus {
class ParticipantCore;
}

struct LoanState {
  // Of memory that stays with its process: by whom it is shared and published, if nothing else of
  // that participant is left.
  std::shared_ptr<bus::ParticipantCore> home;
  // What it will be when it is published: made here, so that publish() need not wait for memory.
  link::PublishedRef issued;
  Layout layout;
  ByteSpan span;  // of the layout
  std::byte* first = nullptr;
  Device device{};

  const memory::BlockRef& block() const noexcept { return *issued->blocks().begin(); }
};

struct Loan::Impl {
  bus::ForkSafe<LoanState> state;

  // `span` is that of the layout, and `block` is large enough for it.
  static Loan of(memory::BlockRef block, const Layout& layout, const ByteSpan& span,
                 Device device = Device::host(),
                 std::shared_ptr<bus::ParticipantCore> home = nullptr);
};

}  // namespace tensorbus
