#include <algorithm>
#include <exception>

#include "tensorbus/c/guard.hpp"
#include "tensorbus/c/objects.hpp"
#include "tensorbus/c/structs.hpp"

namespace tensorbus::c {

const char* text_of(const char* given, const char* name) { return &required(given, name); }

Access access_of(std::int32_t access) {
  if (access < TB_ACCESS_READ || access > TB_ACCESS_SHARED)
    throw Error(Code::kInvalidArgument, "access is " + std::to_string(access) +
                                            ": expected TB_ACCESS_READ, _PRIVATE or _SHARED");
  return static_cast<Access>(access);
}
static_assert(static_cast<int>(Access::kRead) == TB_ACCESS_READ);
static_assert(static_cast<int>(Access::kPrivate) == TB_ACCESS_PRIVATE);
static_assert(static_cast<int>(Access::kShared) == TB_ACCESS_SHARED);

Device device_of(std::int32_t device) {
  if (device < TB_HOST)
    throw Error(Code::kInvalidArgument, "device is " + std::to_string(device) +
                                            ": expected TB_HOST, or the ordinal of a GPU");
  return device == TB_HOST ? Device::host() : Device::cuda(device);
}

std::int32_t number_of(const Device& device) noexcept {
  return device.is_cuda() ? device.ordinal : TB_HOST;
}

Layout layout_of(const tb_layout& layout) {
  const auto dtype = static_cast<DType>(layout.dtype);
  const auto flags = static_cast<TensorFlags>(layout.flags);
  if (layout.dims > kMaxDims)
    throw Error(Code::kInvalidArgument,
                "layout.dims is " + std::to_string(layout.dims) + "; at most 64 are possible");
  if (layout.dims > 0) (void)required(layout.shape, "layout.shape");
  Dims shape(std::span(layout.shape, layout.dims));
  if (layout.strides == nullptr) return Layout::contiguous(dtype, std::move(shape), flags);
  return {dtype, std::move(shape), Dims(std::span(layout.strides, layout.dims)), flags};
}

tb_layout described(const Layout& layout) noexcept {
  return {.dtype = static_cast<tb_dtype>(layout.dtype),
          .flags = static_cast<std::uint8_t>(layout.flags),
          .dims = static_cast<std::uint32_t>(layout.shape.size()),
          .shape = layout.shape.begin(),
          .strides = layout.strides.begin()};
}

tb_origin described(const Origin& origin) noexcept {
  tb_origin made{};
  std::ranges::copy(origin.host.bytes, made.host);
  std::ranges::copy(origin.writer.bytes, made.writer);
  made.sequence = origin.sequence;
  return made;
}

namespace {

// Returns a view with only the keeper set. Taken over first, the keeper is released even if a later
// step fails.
TensorView kept_view(const tb_tensor& tensor) {
  TensorView view;
  if (tensor.release != nullptr)
    view.keeper = std::shared_ptr<const void>(
        tensor.keeper, [end = tensor.release](const void* kept) { end(const_cast<void*>(kept)); });
  return view;
}

void describe_view(TensorView& view, const tb_tensor& tensor) {
  view.data = tensor.data;
  view.layout = layout_of(tensor.layout);
  view.device = device_of(tensor.device);
  view.stream = tensor.stream;
}

Origin origin_of(const tb_origin& given) noexcept {
  Origin origin;
  std::ranges::copy(given.host, origin.host.bytes.begin());
  std::ranges::copy(given.writer, origin.writer.bytes.begin());
  origin.sequence = given.sequence;
  return origin;
}

std::vector<TensorView> views_of(const tb_message& message) {
  const tb_tensor& first = required(message.tensors, "message.tensors");
  // The struct_size of the first tensor applies to all.
  const auto tensor = [&](std::size_t i) {
    const auto* at = reinterpret_cast<const std::byte*>(&first) + i * first.struct_size;
    return taken(*reinterpret_cast<const tb_tensor*>(at));
  };
  std::vector<TensorView> views;
  views.reserve(message.tensor_count);
  std::exception_ptr unreadable;
  for (std::size_t i = 0; i < message.tensor_count; ++i) {
    try {
      views.push_back(kept_view(tensor(i)));
    } catch (...) {  // the keepers of the other tensors are taken over, too
      unreadable = std::current_exception();
    }
  }
  if (unreadable) std::rethrow_exception(unreadable);
  for (std::size_t i = 0; i < message.tensor_count; ++i) describe_view(views[i], tensor(i));
  return views;
}

}  // namespace

TensorView view_of(const tb_tensor& given) {
  const tb_tensor tensor = taken(given);
  TensorView view = kept_view(tensor);
  describe_view(view, tensor);
  return view;
}

Message message_of(const tb_message& given) {
  const tb_message message = taken(given);
  Message made;
  if (message.tensor_count > 0) made.tensors = views_of(message);
  if (message.field_bytes > 0) {
    const void* const fields = message.fields;
    if (fields == nullptr) throw Error(Code::kInvalidArgument, "message.fields is NULL");
    made.fields = {static_cast<const std::byte*>(fields), message.field_bytes};
  }
  made.fingerprint = message.fingerprint;
  if (message.origin != nullptr) made.origin = origin_of(*message.origin);
  return made;
}

}  // namespace tensorbus::c

using namespace tensorbus;
using namespace tensorbus::c;

tb_dtype tb_dtype_named(const char* name) {
  const auto found = name == nullptr ? std::nullopt : dtype_named(name);
  return found ? static_cast<tb_dtype>(*found) : tb_dtype{0};
}

// The names are literals, which end with a zero byte.
const char* tb_dtype_name(tb_dtype dtype) { return name_of(static_cast<DType>(dtype)).data(); }

size_t tb_dtype_bytes(tb_dtype dtype) { return item_bytes(static_cast<DType>(dtype)); }

tb_status tb_loan_tensor(const tb_loan* loan, tb_tensor* tensor) {
  return done([&] {
    const bus::Loan& memory = required(loan, "loan").loan;
    tb_tensor found = TB_TENSOR_INIT;
    found.device = found.published_on = number_of(memory.device());
    found.layout = described(memory.layout());
    found.data = memory.data();
    found.writable = 1;
    give(&required(tensor, "tensor"), found);
  });
}

void tb_loan_destroy(tb_loan* loan) { delete loan; }
