#include "tensorbus/bus/loaned_sample.hpp"

#include <utility>

#include "tensorbus/platform/step.hpp"
#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::bus {

bool LoanedSample::take(const Layout& layout, const ByteSpan& span, const std::byte* data,
                        memory::BlockRef block, const memory::Arena& arena,
                        memory::Grant most_granted,
                        const std::shared_ptr<link::ByteCounter>& in_flight,
                        std::uint64_t fingerprint) {
  if (span.bytes() == 0 || !block || !block->is_of(arena) || block->standing() ||
      block->most_granted() != most_granted || data + span.begin < block->data() ||
      block->data() + block->bytes() < data + span.end)
    return false;
  link::Entry& entry = ready_.entry;
  const std::size_t bytes = encode_alone(
      layout, *block, static_cast<std::uint64_t>(data - block->data()), entry.inline_bytes);
  if (bytes == 0 || block->published()) return false;
  entry.fingerprint = fingerprint;
  entry.length = static_cast<std::uint32_t>(bytes);
  platform::step("publish.described");
  memory::Block& marked = *block;
  ready_.issued = std::make_shared<link::IssuedSample>(std::move(block), in_flight);
  if (!marked.mark_published()) return false;  // another thread was faster
  marked_ = &marked;
  return true;
}

void LoanedSample::return_loan() noexcept {
  if (marked_ != nullptr) marked_->unmark_published();
}

}  // namespace tensorbus::bus
