#include "tensorbus/bus/publish/loaned_sample.hpp"

#include <utility>

#include "tensorbus/platform/kill_point.hpp"
#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::bus {

bool LoanedSample::take(const Layout& layout, const ByteSpan& span, const std::byte* data,
                        link::PublishedRef& issued, const memory::Arena& arena, memory::PoolId pool,
                        std::uint64_t fingerprint) {
  memory::Block& block = issued->block();
  if (span.bytes() == 0 || !block.is_of(arena) || block.persistent() || block.pool() != pool ||
      data + span.begin < block.data() || block.data() + block.bytes() < data + span.end)
    return false;
  link::Entry& entry = ready_.entry;
  const std::size_t bytes = tensor::encode_alone(
      layout, block, static_cast<std::uint64_t>(data - block.data()), entry.inline_bytes);
  if (bytes == 0) return false;
  entry.fingerprint = fingerprint;
  entry.length = static_cast<std::uint32_t>(bytes);
  platform::kill_point("publish.described");
  if (!block.mark_published()) return false;
  ready_.issued = std::move(issued);
  ready_.bytes = span.bytes();
  return true;
}

void LoanedSample::return_loan() noexcept {
  if (!ready_.issued) return;
  ready_.issued->block().unmark_published();
  if (loan_ != nullptr) *loan_ = std::move(ready_.issued);
}

}  // namespace tensorbus::bus
