#include "tensorbus/tensor/descriptor.hpp"

#include <bit>
#include <cstddef>
#include <cstring>
#include <string>

#include "tensorbus/platform/check.hpp"
#include "tensorbus/platform/error.hpp"

static_assert(std::endian::native == std::endian::little, "descriptors are little-endian");

namespace tensorbus::tensor {
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kHasOrigin = 1;
constexpr std::uint8_t kHandedOn = 2;    // the owners follow, and the owner of each tensor
constexpr std::uint8_t kContiguous = 1;  // a flag of a tensor: no strides follow
constexpr std::uint8_t kNarrow = 128;    // also of a tensor: sizes and strides have 32 bits
constexpr unsigned kOfTheForm = kContiguous | kNarrow;

struct Head {
  std::uint8_t version = kVersion;
  std::uint8_t flags = 0;
  std::uint16_t tensors = 0;
  std::uint32_t field_bytes = 0;
};
static_assert(sizeof(Head) == 8);

struct TensorHead {
  DType dtype = DType::kUInt8;
  std::uint8_t dims = 0;
  memory::BufferKind kind = memory::BufferKind::kHost;
  std::uint8_t flags = 0;
  memory::SegmentId segment = 0;
  std::uint64_t offset = 0;
  std::uint64_t generation = 0;
};
static_assert(sizeof(TensorHead) == 24);

constexpr std::size_t kOriginBytes = 40;

[[noreturn]] void refuse(const std::string& why) {
  throw Error(Code::kProtocol, "sample.descriptor: " + why);
}

constexpr std::size_t width_of(bool narrow) {
  return narrow ? sizeof(std::int32_t) : sizeof(std::int64_t);
}

// The encoding of sizes and strides. Equal layouts have the same form.
struct Form {
  bool contiguous;
  bool narrow;

  explicit Form(const Layout& layout)
      : contiguous(layout.is_contiguous()),
        narrow(fits(layout.shape) && (contiguous || fits(layout.strides))) {}
  std::size_t bytes(const Layout& layout) const {
    return sizeof(TensorHead) + layout.shape.size() * width_of(narrow) * (contiguous ? 1 : 2);
  }
  std::uint8_t flags(const Layout& layout) const {
    return static_cast<std::uint8_t>(static_cast<unsigned>(layout.flags) |
                                     (contiguous ? kContiguous : 0U) | (narrow ? kNarrow : 0U));
  }

 private:
  static bool fits(const Dims& dims) {
    bool all = true;
    for (const std::int64_t value : dims) all &= value == static_cast<std::int32_t>(value);
    return all;
  }
};

// Reads sizes (not negative) or strides.
void read_values(Dims& dims, const std::byte* from, bool narrow) {
  if (!narrow) {
    std::memcpy(dims.begin(), from, dims.size() * sizeof(std::int64_t));
    return;
  }
  for (std::int64_t& value : dims) {
    std::int32_t read = 0;
    std::memcpy(&read, from, sizeof read);
    value = read;
    from += sizeof read;
  }
}

// Writes values one after the other.
class Writer {
 public:
  explicit Writer(std::byte* at) : at_(at) {}
  void put(const void* from, std::size_t count) {
    if (count != 0) std::memcpy(at_, from, count);
    at_ += count;
  }
  void put(const TensorHead& head, const Layout& layout, const Form& form) {
    put(&head, sizeof head);
    put(layout.shape, form.narrow);
    if (!form.contiguous) put(layout.strides, form.narrow);
  }
  const std::byte* at() const { return at_; }

 private:
  void put(const Dims& dims, bool narrow) {
    if (!narrow) return put(dims.begin(), dims.size() * sizeof(std::int64_t));
    for (const std::int64_t value : dims) {
      const auto written = static_cast<std::int32_t>(value);
      std::memcpy(at_, &written, sizeof written);
      at_ += sizeof written;
    }
  }

  std::byte* at_;
};

class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : rest_(bytes) {}
  void read(void* target, std::size_t count, const char* what) {
    std::memcpy(target, take(count, what).data(), count);
  }
  void read_dims(Dims& dims, std::size_t count, bool narrow, const char* what) {
    const auto part = take(count * width_of(narrow), what);
    dims = Dims(count);
    read_values(dims, part.data(), narrow);
  }
  std::span<const std::byte> take(std::size_t count, const char* what) {
    if (count > rest_.size()) refuse(std::string("cut short in ") + what);
    const auto part = rest_.first(count);
    rest_ = rest_.subspan(count);
    return part;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
};

void read_tensor(Cursor& cursor, TensorEntry& entry) {
  TensorHead head;
  cursor.read(&head, sizeof head, "a tensor");
  if (head.kind > memory::BufferKind::kFile)
    refuse("buffer kind " + std::to_string(static_cast<int>(head.kind)) + " is not known here");
  if (head.dims > kMaxDims) refuse(std::to_string(head.dims) + " dimensions");
  entry.kind = head.kind;
  entry.segment = head.segment;
  entry.offset = head.offset;
  entry.generation = head.generation;
  Layout& layout = entry.layout;
  layout.dtype = head.dtype;
  layout.flags = static_cast<TensorFlags>(head.flags & ~kOfTheForm);
  const bool narrow = (head.flags & kNarrow) != 0;
  cursor.read_dims(layout.shape, head.dims, narrow, "a shape");
  try {
    if ((head.flags & kContiguous) != 0) {
      entry.span = internal::lay_out_in_rows(layout);
    } else {
      cursor.read_dims(layout.strides, head.dims, narrow, "strides");
      entry.span = span_of(layout);
    }
  } catch (const Error& error) {
    refuse(error.what());
  }
}

void read_owners(Cursor& cursor, Descriptor& descriptor) {
  std::uint16_t count = 0;
  cursor.read(&count, sizeof count, "the owners");
  for (std::uint16_t i = 0; i < count; ++i)
    cursor.read(descriptor.owners.emplace_back().bytes.data(), sizeof(Id), "the owners");
  for (TensorEntry& entry : descriptor.tensors) {
    cursor.read(&entry.owner, sizeof entry.owner, "the owners");
    if (entry.owner > count) refuse("owner " + std::to_string(entry.owner) + " is not named");
  }
}

}  // namespace

std::size_t Descriptor::encoded_bytes() const noexcept {
  std::size_t bytes = sizeof(Head) + (origin ? kOriginBytes : 0) + fields.size();
  if (!owners.empty())
    bytes += sizeof(std::uint16_t) * (1 + tensors.size()) + sizeof(Id) * owners.size();
  for (const TensorEntry& entry : tensors) bytes += Form(entry.layout).bytes(entry.layout);
  return bytes;
}

void Descriptor::encode(std::span<std::byte> target) const {
  Writer writer(target.data());
  const Head head{.flags = static_cast<std::uint8_t>((origin ? kHasOrigin : 0) |
                                                     (owners.empty() ? 0 : kHandedOn)),
                  .tensors = static_cast<std::uint16_t>(tensors.size()),
                  .field_bytes = static_cast<std::uint32_t>(fields.size())};
  writer.put(&head, sizeof head);
  if (origin) {
    writer.put(origin->host.bytes.data(), 16);
    writer.put(origin->writer.bytes.data(), 16);
    writer.put(&origin->sequence, 8);
  }
  if (!owners.empty()) {
    const auto count = static_cast<std::uint16_t>(owners.size());
    writer.put(&count, sizeof count);
    for (const Id& owner : owners) writer.put(owner.bytes.data(), sizeof owner);
    for (const TensorEntry& entry : tensors) writer.put(&entry.owner, sizeof entry.owner);
  }
  for (const TensorEntry& entry : tensors) {
    const Layout& layout = entry.layout;
    const Form form(layout);
    const TensorHead tensor{layout.dtype,    static_cast<std::uint8_t>(layout.shape.size()),
                            entry.kind,      form.flags(layout),
                            entry.segment,   entry.offset,
                            entry.generation};
    writer.put(tensor, layout, form);
  }
  writer.put(fields.data(), fields.size());
  check(writer.at() == target.data() + target.size());
}

std::size_t encoded_bytes_alone(const Layout& layout) {
  return sizeof(Head) + Form(layout).bytes(layout);
}

std::size_t encode_alone(const Layout& layout, const memory::Block& block, std::uint64_t offset,
                         std::span<std::byte> target) {
  const Form form(layout);
  const std::size_t bytes = sizeof(Head) + form.bytes(layout);
  if (bytes > target.size()) return 0;
  Writer writer(target.data());
  const Head head{.tensors = 1};
  writer.put(&head, sizeof head);
  writer.put({layout.dtype, static_cast<std::uint8_t>(layout.shape.size()), block.kind(),
              form.flags(layout), block.segment(), block.offset() + offset, block.generation()},
             layout, form);
  return bytes;
}

void move_alone(std::span<std::byte> descriptor, std::uint64_t bytes) noexcept {
  std::byte* const at = descriptor.data() + sizeof(Head) + offsetof(TensorHead, offset);
  std::uint64_t offset = 0;
  std::memcpy(&offset, at, sizeof offset);
  offset += bytes;
  std::memcpy(at, &offset, sizeof offset);
}

Descriptor Descriptor::decode(std::span<const std::byte> bytes) {
  Cursor cursor(bytes);
  Head head;
  cursor.read(&head, sizeof head, "its head");
  if (head.version != kVersion)
    refuse("version " + std::to_string(head.version) + ", expected " + std::to_string(kVersion));
  if ((head.flags & ~(kHasOrigin | kHandedOn)) != 0)
    refuse("flags " + std::to_string(head.flags) + ", which are not known here");
  Descriptor descriptor;
  if ((head.flags & kHasOrigin) != 0) {
    Origin& origin = descriptor.origin.emplace();
    cursor.read(origin.host.bytes.data(), 16, "origin");
    cursor.read(origin.writer.bytes.data(), 16, "origin");
    cursor.read(&origin.sequence, 8, "origin");
  }
  if (head.tensors > bytes.size() / sizeof(TensorHead)) refuse("more tensors than bytes");
  descriptor.tensors.resize(head.tensors);
  if ((head.flags & kHandedOn) != 0) read_owners(cursor, descriptor);
  for (TensorEntry& entry : descriptor.tensors) read_tensor(cursor, entry);
  descriptor.fields = cursor.take(head.field_bytes, "the fields");
  if (!cursor.at_end()) refuse("bytes after the fields");
  return descriptor;
}

namespace {

std::uint32_t kind_word(const std::byte* tensor_head) noexcept {
  std::uint32_t word = 0;  // dtype, dimensions, kind of memory, flags
  static_assert(offsetof(TensorHead, segment) == sizeof word);
  std::memcpy(&word, tensor_head, sizeof word);
  return word;
}

}  // namespace

LoneTensors::LoneTensors(DType dtype, const Dims& shape, TensorFlags flags) {
  const Layout layout = Layout::contiguous(dtype, shape);
  bytes_ = layout.packed_bytes();
  const Form form(layout);
  descriptor_.resize(sizeof(Head) + form.bytes(layout));
  Writer writer(descriptor_.data());
  const Head head{.tensors = 1};
  writer.put(&head, sizeof head);
  writer.put({dtype, static_cast<std::uint8_t>(shape.size()), memory::BufferKind::kHost,
              form.flags(layout), 0, 0, 0},
             layout, form);
  const auto compared = static_cast<std::uint8_t>(static_cast<unsigned>(flags) | kOfTheForm);
  flags_mask_ = 0x00ffffffU | std::uint32_t{compared} << 24;
}

std::optional<LoneTensor> LoneTensors::find(std::span<const std::byte> bytes) const noexcept {
  constexpr std::size_t kHeads = sizeof(Head) + sizeof(TensorHead);
  const std::byte* const known = descriptor_.data();
  const std::byte* const given = bytes.data();
  if (bytes.size() != descriptor_.size() || std::memcmp(given, known, sizeof(Head)) != 0 ||
      ((kind_word(given + sizeof(Head)) ^ kind_word(known + sizeof(Head))) & flags_mask_) != 0)
    return std::nullopt;
  for (std::size_t at = kHeads; at < bytes.size(); at += sizeof(std::int32_t))
    if (std::memcmp(given + at, known + at, sizeof(std::int32_t)) != 0) return std::nullopt;
  TensorHead tensor;
  std::memcpy(&tensor, given + sizeof(Head), sizeof tensor);
  return LoneTensor{tensor.segment, tensor.offset, tensor.generation, bytes_};
}

std::optional<LoneTensor> decode_alone(std::span<const std::byte> bytes, Layout& layout) {
  Head head;
  TensorHead tensor;
  constexpr std::size_t kHeads = sizeof head + sizeof tensor;
  if (bytes.size() < kHeads) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  std::memcpy(&tensor, bytes.data() + sizeof head, sizeof tensor);
  const bool narrow = (tensor.flags & kNarrow) != 0;
  const bool plain = head.version == kVersion && head.flags == 0 && head.tensors == 1 &&
                     head.field_bytes == 0 && tensor.kind == memory::BufferKind::kHost &&
                     (tensor.flags & kContiguous) != 0 &&
                     bytes.size() == kHeads + tensor.dims * width_of(narrow);
  if (!plain) return std::nullopt;
  layout.dtype = tensor.dtype;
  layout.flags = static_cast<TensorFlags>(tensor.flags & ~kOfTheForm);
  layout.shape = Dims(tensor.dims);
  read_values(layout.shape, bytes.data() + kHeads, narrow);
  try {
    const ByteSpan span = internal::lay_out_in_rows(layout);
    return LoneTensor{tensor.segment, tensor.offset, tensor.generation, span.bytes()};
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool Descriptor::has_tensors(std::span<const std::byte> bytes) noexcept {
  Head head;
  if (bytes.size() < sizeof head) return false;
  std::memcpy(&head, bytes.data(), sizeof head);
  return head.tensors != 0;
}

}  // namespace tensorbus::tensor
