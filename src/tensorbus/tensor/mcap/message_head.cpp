#include "tensorbus/tensor/mcap/message_head.hpp"

#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "tensorbus/tensor/mcap/crc32.hpp"
#include "tensorbus/tensor/mcap/mcap.hpp"

namespace tensorbus::tensor::mcap {
namespace {

constexpr std::string_view kHeadMagic = "TBR1";
constexpr std::size_t kChecked = 8;  // the checksum covers everything from here on
constexpr std::size_t kFixed = 48;   // bytes before the table
constexpr TensorFlags kKnownFlags = TensorFlags::kRequiresGrad | TensorFlags::kFromTorch |
                                    TensorFlags::kFromNumpy | TensorFlags::kParameter |
                                    TensorFlags::kConjugate | TensorFlags::kNegative;
constexpr std::uint8_t kInHostMemory = 0;  // memory in which a tensor was published
constexpr std::uint8_t kOnCuda = 1;
constexpr std::size_t kOfTensor = 16;  // bytes of a tensor's entry before its sizes and strides

std::uint64_t table_bytes(const MessageHead& head) {
  std::uint64_t bytes = kFixed;
  for (const PlacedTensor& tensor : head.tensors)
    bytes += kOfTensor + 2 * sizeof(std::uint64_t) * tensor.layout.shape.size();
  return bytes;
}

void require_inside(const PlacedTensor& tensor, std::uint64_t head, std::uint64_t data) {
  const ByteSpan span = span_of(tensor.layout);
  if (span.bytes() == 0) return;
  const auto before = static_cast<std::uint64_t>(-span.begin);
  if (tensor.offset > data || tensor.offset < before || tensor.offset - before < head ||
      static_cast<std::uint64_t>(span.end) > data - tensor.offset)
    refuse_record("a tensor of " + std::to_string(span.bytes()) + " bytes at " +
                  std::to_string(tensor.offset) + " does not lie between the head, of " +
                  std::to_string(head) + " bytes, and the end of the message, of " +
                  std::to_string(data));
}

Device read_device(RecordCursor& cursor) {
  const auto kind = cursor.number<std::uint8_t>();
  const auto ordinal = cursor.number<std::uint16_t>();
  (void)cursor.take(2);
  if (kind > kOnCuda) refuse_record("a tensor of an unknown device");
  return kind == kOnCuda ? Device::cuda(ordinal) : Device::host();
}

PlacedTensor read_tensor(RecordCursor& cursor) {
  PlacedTensor tensor;
  tensor.layout.dtype = static_cast<DType>(cursor.number<std::uint8_t>());
  tensor.layout.flags = static_cast<TensorFlags>(cursor.number<std::uint8_t>());
  const std::size_t dims = cursor.number<std::uint8_t>();
  tensor.published_on = read_device(cursor);
  if ((kKnownFlags | tensor.layout.flags) != kKnownFlags)
    refuse_record("a tensor with unknown flags");
  if (dims > kMaxDims) refuse_record("a tensor of " + std::to_string(dims) + " dimensions");
  tensor.offset = cursor.number<std::uint64_t>();
  tensor.layout.shape = Dims(dims);
  tensor.layout.strides = Dims(dims);
  for (Dims* const sizes : {&tensor.layout.shape, &tensor.layout.strides})
    for (std::int64_t& size : *sizes)
      size = static_cast<std::int64_t>(cursor.number<std::uint64_t>());
  return tensor;
}

}  // namespace

std::uint64_t head_bytes(const MessageHead& head) { return table_bytes(head) + head.fields.size(); }

void encode_head(const MessageHead& head, std::vector<std::byte>& bytes) {
  const std::size_t begin = bytes.size();
  RecordWriter out(bytes);
  out.raw(kHeadMagic);
  out.number(std::uint32_t{0});
  out.number(head_bytes(head));
  out.number(head.fingerprint);
  out.number(head.sequence);
  out.number(std::uint64_t{head.fields.size()});
  out.number(static_cast<std::uint32_t>(head.tensors.size()));
  out.number(std::uint32_t{0});
  for (const PlacedTensor& tensor : head.tensors) {
    out.number(static_cast<std::uint8_t>(tensor.layout.dtype));
    out.number(static_cast<std::uint8_t>(tensor.layout.flags));
    out.number(static_cast<std::uint8_t>(tensor.layout.shape.size()));
    out.number(static_cast<std::uint8_t>(tensor.published_on.is_cuda() ? kOnCuda : kInHostMemory));
    out.number(static_cast<std::uint16_t>(tensor.published_on.ordinal));
    out.raw(std::array<std::byte, 2>{});
    out.number(tensor.offset);
    for (const std::int64_t size : tensor.layout.shape)
      out.number(static_cast<std::uint64_t>(size));
    for (const std::int64_t stride : tensor.layout.strides)
      out.number(static_cast<std::uint64_t>(stride));
  }
  const std::uint32_t crc = crc32(head.fields, crc32(std::span(bytes).subspan(begin + kChecked)));
  std::memcpy(bytes.data() + begin + kHeadMagic.size(), &crc, sizeof crc);
}

std::uint64_t head_bytes_in(std::span<const std::byte> start, std::uint64_t data_bytes) {
  if (data_bytes < kFixed || start.size() < kHeadStart)
    refuse_record("it has " + std::to_string(data_bytes) +
                  " bytes, and the head of a message at least " + std::to_string(kFixed));
  RecordCursor cursor(start);
  const auto magic = cursor.take(kHeadMagic.size());
  if (std::memcmp(magic.data(), kHeadMagic.data(), magic.size()) != 0)
    refuse_record("it does not begin as a message of Tensorbus");
  (void)cursor.number<std::uint32_t>();
  const auto bytes = cursor.number<std::uint64_t>();
  if (bytes < kFixed || bytes > data_bytes)
    refuse_record("its head has " + std::to_string(bytes) + " bytes, the message " +
                  std::to_string(data_bytes));
  return bytes;
}

MessageHead decode_head(std::span<const std::byte> bytes, std::uint64_t data_bytes) {
  if (head_bytes_in(bytes, data_bytes) != bytes.size())
    refuse_record("its head has another length");
  RecordCursor cursor(bytes);
  (void)cursor.take(kHeadMagic.size());
  if (cursor.number<std::uint32_t>() != crc32(bytes.subspan(kChecked)))
    refuse_record("its head is damaged: the checksum differs");
  (void)cursor.number<std::uint64_t>();
  MessageHead head;
  head.fingerprint = cursor.number<std::uint64_t>();
  head.sequence = cursor.number<std::uint64_t>();
  const auto field_bytes = cursor.number<std::uint64_t>();
  const auto tensors = cursor.number<std::uint32_t>();
  (void)cursor.number<std::uint32_t>();
  if (tensors > cursor.left() / kOfTensor)
    refuse_record(std::to_string(tensors) + " tensors do not fit into its head");
  head.tensors.reserve(tensors);
  for (std::uint32_t i = 0; i < tensors; ++i) {
    head.tensors.push_back(read_tensor(cursor));
    require_inside(head.tensors.back(), bytes.size(), data_bytes);
  }
  head.fields = cursor.take(field_bytes);
  if (cursor.left() != 0) refuse_record("its head has bytes after the fields");
  return head;
}

}  // namespace tensorbus::tensor::mcap
