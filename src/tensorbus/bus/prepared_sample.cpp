#include "tensorbus/bus/prepared_sample.hpp"

#include <algorithm>
#include <string>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/step.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::size_t kTensorAlignment = 64;
constexpr std::size_t kMaxTensors = 65535;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

// A tensor that is not in the arena, and where its copy goes in the block of copies.
struct Copy {
  std::size_t tensor = 0;
  std::size_t place = 0;
  ByteSpan span;  // of the copy
};

void point_at(TensorEntry& entry, const memory::BlockRef& block, std::uint64_t offset) {
  entry.segment = block->segment();
  entry.offset = block->offset() + offset;
  entry.generation = block->generation();
}

}  // namespace

PreparedSample::PreparedSample(const Message& message, memory::Arena& arena,
                               const std::function<memory::BlockRef(std::size_t)>& allocate,
                               const std::shared_ptr<link::ByteCounter>& in_flight) {
  if (message.tensors.size() > kMaxTensors)
    throw Error(Code::kInvalidArgument, std::to_string(message.tensors.size()) +
                                            " tensors in one message; at most 65535 are possible");
  try {
    Descriptor descriptor;
    descriptor.origin = message.origin;
    descriptor.fields = message.fields;
    descriptor.tensors.resize(message.tensors.size());
    std::vector<Copy> copies;
    std::size_t copy_bytes = 0;
    for (std::size_t i = 0; i < message.tensors.size(); ++i) {
      const TensorView& view = message.tensors[i];
      TensorEntry& entry = descriptor.tensors[i];
      const ByteSpan span = span_of(view.layout);
      if (const memory::BlockRef loan = take_loan(view.data, span, arena)) {
        entry.layout = view.layout;
        point_at(entry, loan, static_cast<std::uint64_t>(
                                  static_cast<const std::byte*>(view.data) - loan->data()));
      } else {
        entry.layout = layout_of_copy(view.layout);
        const ByteSpan copy_span = span_of(entry.layout);
        copies.push_back({i, copy_bytes, copy_span});
        copy_bytes += aligned(copy_span.bytes());
      }
    }

    // One block takes all copies, and the descriptor behind them if it does not fit into the entry.
    const std::size_t descriptor_bytes = descriptor.encoded_bytes();
    const bool rides_inline = descriptor_bytes <= link::kInlineBytes;
    const std::size_t block_bytes = copy_bytes + (rides_inline ? 0 : descriptor_bytes);
    std::vector<memory::BlockRef> blocks = loans_;
    memory::BlockRef block;
    if (block_bytes > 0) blocks.push_back(block = allocate(block_bytes));
    for (const Copy& copy : copies) {
      const TensorView& view = message.tensors[copy.tensor];
      if (block) {
        copy_elements(block->data() + copy.place, static_cast<const std::byte*>(view.data),
                      view.layout);
        point_at(descriptor.tensors[copy.tensor], block,
                 copy.place - static_cast<std::uint64_t>(copy.span.begin));
      }
      copied_bytes_ += copy.span.bytes();
    }
    platform::step("publish.copied");

    entry_.fingerprint = message.fingerprint;
    entry_.length = static_cast<std::uint32_t>(descriptor_bytes);
    if (rides_inline) {
      descriptor.encode(std::span(entry_.inline_bytes).first(descriptor_bytes));
    } else {
      entry_.segment = block->segment();
      entry_.offset = block->offset() + copy_bytes;
      descriptor.encode({block->data() + copy_bytes, descriptor_bytes});
    }
    platform::step("publish.described");
    if (!blocks.empty()) {
      if (block) block->mark_published();
      issued_ = std::make_shared<link::IssuedSample>(std::move(blocks), in_flight);
    }
  } catch (...) {
    return_loans();
    throw;
  }
}

PreparedSample::~PreparedSample() { return_loans(); }

// The loan that holds these bytes, marked as published; empty if they are not in a loan.
memory::BlockRef PreparedSample::take_loan(const void* data, const ByteSpan& span,
                                           memory::Arena& arena) {
  if (span.bytes() == 0) return {};
  const auto* first = static_cast<const std::byte*>(data) + span.begin;
  memory::BlockRef block = arena.find(first);
  if (!block) return {};
  if (first + span.bytes() > block->data() + block->bytes())
    throw Error(Code::kInvalidArgument, "the tensor reaches beyond the end of its loan");
  if (std::find(loans_.begin(), loans_.end(), block) != loans_.end()) return block;
  if (!block->mark_published())
    throw Error(Code::kInvalidArgument,
                "this loan was published before: its memory belongs to its readers now. Take a "
                "new loan for each sample, or publish a copy");
  loans_.push_back(block);
  return block;
}

void PreparedSample::return_loans() noexcept {
  for (const memory::BlockRef& loan : loans_) loan->unmark_published();
  loans_.clear();
}

}  // namespace tensorbus::bus
