#pragma once

#include <cstddef>
#include <memory>
#include <tensorbus/layout.hpp>

#include "tensorbus/bus/publish/loan.hpp"
#include "tensorbus/link/lease/published_sample.hpp"
#include "tensorbus/memory/block.hpp"

namespace tensorbus {

struct LoanState {
  static constexpr const char* kMovedFrom = "this loan was published or moved from";
  // The participant, of memory that stays with its process: it shares and publishes the memory when
  // nothing else keeps the participant.
  std::shared_ptr<bus::ParticipantCore> home;
  // What it will be when it is published. It is made here, so that publish() takes no memory.
  link::PublishedRef issued;
  Layout layout;
  ByteSpan span;  // of the layout
  std::byte* first = nullptr;
  Device device{};

  const memory::BlockRef& block() const noexcept { return *issued->blocks().begin(); }
};

}  // namespace tensorbus
