// Descriptors of samples. In a descriptor that decodes, each tensor has the right span. The
// descriptor is encoded and decoded again without a change.

#include <vector>

#include "fuzz/fuzz.hpp"
#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::fuzz {
namespace {

__extension__ using Wide = __int128;  // wide enough that nothing here overflows

// Checks span_of() with a second implementation.
void require_span(const Layout& layout) {
  const ByteSpan span = span_of(layout);
  const auto item = static_cast<Wide>(item_bytes(layout.dtype));
  Wide elements = 1;
  Wide begin = 0;
  Wide end = item;
  for (std::size_t i = 0; i < layout.shape.size(); ++i) {
    const Wide last = static_cast<Wide>(layout.shape[i]) - 1;
    check(last >= -1);
    elements *= last + 1;
    const Wide reach = last * layout.strides[i] * item;
    (reach < 0 ? begin : end) += reach;
  }
  if (elements == 0) begin = end = 0;
  check(span.begin == begin && span.end == end);
  check(layout.elements() == static_cast<std::size_t>(elements));
  if (layout.is_contiguous() && elements != 0) check(begin == 0 && end == elements * item);
}

bool same(const Layout& a, const Layout& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides && a.flags == b.flags;
}

// Checks that decode_alone() reads the same as Descriptor::decode().
void require_alone(std::span<const std::byte> bytes, const tensor::Descriptor& whole) {
  Layout layout;
  const auto lone = tensor::decode_alone(bytes, layout);
  if (!lone) return;
  check(whole.tensors.size() == 1 && whole.fields.empty() && !whole.origin && whole.owners.empty());
  const tensor::TensorEntry& entry = whole.tensors[0];
  check(same(entry.layout, layout) && entry.kind == memory::BufferKind::kHost);
  check(entry.segment == lone->segment && entry.offset == lone->offset &&
        entry.generation == lone->generation && entry.span.begin == 0 &&
        entry.span.bytes() == lone->bytes);
}

void run(std::span<const std::byte> bytes) {
  tensor::Descriptor descriptor;
  if (!accepts([&] { descriptor = tensor::Descriptor::decode(bytes); })) {
    Layout ignored;
    return check(!tensor::decode_alone(bytes, ignored));
  }
  require_alone(bytes, descriptor);
  for (const tensor::TensorEntry& entry : descriptor.tensors) require_span(entry.layout);
  if (!descriptor.fields.empty())
    check(descriptor.fields.data() + descriptor.fields.size() == bytes.data() + bytes.size());

  check(descriptor.encoded_bytes() <= bytes.size());
  std::vector<std::byte> written(descriptor.encoded_bytes());
  descriptor.encode(written);
  const tensor::Descriptor again = tensor::Descriptor::decode(written);
  check(again.tensors.size() == descriptor.tensors.size() && again.origin == descriptor.origin);
  check(std::ranges::equal(again.fields, descriptor.fields));
  for (std::size_t i = 0; i < again.tensors.size(); ++i) {
    const tensor::TensorEntry& a = again.tensors[i];
    const tensor::TensorEntry& b = descriptor.tensors[i];
    check(same(a.layout, b.layout) && a.segment == b.segment && a.offset == b.offset &&
          a.generation == b.generation && a.kind == b.kind);
  }
}

}  // namespace
}  // namespace tensorbus::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tensorbus::fuzz::run(tensorbus::fuzz::Input(data, size).rest());
  return 0;
}
