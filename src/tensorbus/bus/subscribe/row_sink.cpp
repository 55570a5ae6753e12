#include "tensorbus/bus/subscribe/row_sink.hpp"

#include <cstring>
#include <span>
#include <utility>

namespace tensorbus::bus {
namespace {

constexpr TensorFlags kChangesValues = TensorFlags::kConjugate | TensorFlags::kNegative;

Layout row_of(const Layout& rows) {
  span_of(rows);
  if (rows.shape.empty() || !rows.is_contiguous())
    throw Error(Code::kInvalidArgument,
                "receive_into: needs a contiguous array of rows, of at least one dimension");
  return Layout::contiguous(rows.dtype, Dims(std::span(rows.shape.begin() + 1, rows.shape.end())));
}

std::string text_of(const Layout& layout) {
  std::string text(name_of(layout.dtype));
  text += " (";
  for (const std::int64_t size : layout.shape) text += std::to_string(size) + ", ";
  if (layout.shape.size() > 1) text.resize(text.size() - 2);
  if (layout.shape.size() == 1) text.resize(text.size() - 1);
  return text + ")";
}

}  // namespace

RowSink::RowSink(std::byte* first, const Layout& rows)
    : row_(row_of(rows)),
      bytes_(row_.packed_bytes()),
      size_(static_cast<std::size_t>(rows.shape[0])),
      next_(first),
      same_(row_.dtype, row_.shape, kChangesValues) {
  if (size_ == 0) throw Error(Code::kInvalidArgument, "receive_into: the array has no row");
  if (bytes_ != 0 && next_ == nullptr)
    throw Error(Code::kInvalidArgument, "receive_into: the array has no memory");
}

bool RowSink::is_row(const Layout& layout) const noexcept {
  return layout.dtype == row_.dtype && layout.shape == row_.shape &&
         !has(layout.flags, kChangesValues);
}

bool RowSink::take(link::LeaseSource& lender, const link::Entry& entry) {
  if (!entry.is_inline() || entry.length > link::kInlineBytes || entry.timeline != 0) return false;
  const auto lone = same_.find(std::span(entry.inline_bytes).first(entry.length));
  if (!lone) return false;
  const memory::BorrowedSegments::Ref& mapping = lender.find_segment(lone->segment);
  if (!mapping || lone->offset > mapping->size() || bytes_ > mapping->size() - lone->offset)
    return false;
  std::memcpy(next_, mapping->data() + lone->offset, bytes_);
  next_ += bytes_;
  ++taken_;
  return true;
}

bool RowSink::take(const Sample& sample) {
  if (sample.tensors().size() != 1 || !sample.field_bytes().empty()) return false;
  const Tensor& tensor = sample.tensors().front();
  if (!tensor.device().is_host() || !is_row(tensor.layout())) return false;
  tensor::copy_elements(next_, row_, tensor.data(), tensor.layout(), tensor::Stores::kOrdinary);
  next_ += bytes_;
  ++taken_;
  return true;
}

std::string RowSink::refusal(const Sample& sample) const {
  std::string is = "a structure without tensors";
  if (sample.tensors().size() == 1 && sample.field_bytes().empty()) {
    const Tensor& tensor = sample.tensors().front();
    is = tensor.device().is_host() ? text_of(tensor.layout()) : "a tensor on a GPU";
  } else if (!sample.tensors().empty()) {
    is = "a structure of " + std::to_string(sample.tensors().size()) + " tensors";
  }
  return "the next message is " + is + ", but the rows of the array are " + text_of(row_) +
         ": use receive()";
}

}  // namespace tensorbus::bus
