#pragma once

#include <tensorbus/c/tensor.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <tensorbus/values/device.hpp>
#include <tensorbus/values/error.hpp>
#include <tensorbus/values/layout.hpp>
#include <tensorbus/values/message.hpp>
#include <tensorbus/values/origin.hpp>
#include <vector>

// Tensors and messages in the form of the C interface.
namespace tensorbus::inline v0 {
namespace internal {

inline std::int32_t number_of(Device device) noexcept {
  return device.is_cuda() ? device.ordinal : TB_HOST;
}
inline Device device_of(std::int32_t number) noexcept {
  return number == TB_HOST ? Device::host() : Device::cuda(number);
}

// The result points into `layout`.
inline tb_layout described(const Layout& layout) {
  if (layout.shape.size() != layout.strides.size())
    refuse_tensor("expected as many strides as sizes");
  return {static_cast<tb_dtype>(layout.dtype), static_cast<std::uint8_t>(layout.flags),
          static_cast<std::uint32_t>(layout.shape.size()), layout.shape.begin(),
          layout.strides.begin()};
}
inline void assign(Dims& dims, const std::int64_t* values, std::size_t count) {
  if (dims.size() != count) dims = Dims(count);
  for (std::size_t i = 0; i < count; ++i) dims[i] = values[i];
}
inline void assign(Layout& layout, const tb_layout& given) {
  layout.dtype = static_cast<DType>(given.dtype);
  layout.flags = static_cast<TensorFlags>(given.flags);
  assign(layout.shape, given.shape, given.dims);
  assign(layout.strides, given.strides, given.dims);
}

inline tb_origin described(const Origin& origin) noexcept {
  tb_origin made{};
  std::copy(origin.host.bytes.begin(), origin.host.bytes.end(), made.host);
  std::copy(origin.writer.bytes.begin(), origin.writer.bytes.end(), made.writer);
  made.sequence = origin.sequence;
  return made;
}
inline Id id_of(const std::uint8_t (&bytes)[16]) noexcept {
  Id id;
  std::copy(std::begin(bytes), std::end(bytes), id.bytes.begin());
  return id;
}

// A message for a call of the C interface, which takes over its keepers.
class Outbound {
 public:
  Outbound(std::span<const TensorView> tensors, const Message& rest) {
    tb_tensor* const described = room_for(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) describe(tensors[i], described[i]);
    message_.tensors = described;
    message_.tensor_count = static_cast<std::uint32_t>(tensors.size());
    message_.fields = rest.fields.data();
    message_.field_bytes = rest.fields.size();
    message_.fingerprint = rest.fingerprint;
    if (rest.origin) message_.origin = &origin_.emplace(internal::described(*rest.origin));
  }
  explicit Outbound(const Message& message) : Outbound(message.tensors, message) {}
  Outbound(const Outbound&) = delete;
  Outbound& operator=(const Outbound&) = delete;

  // Returns the message for one call, which takes the keepers.
  const tb_message* hand_over() noexcept {
    for (Keeper& keeper : keepers_) (void)keeper.release();
    return &message_;
  }

 private:
  using Keeper = std::unique_ptr<std::shared_ptr<const void>>;

  tb_tensor* room_for(std::size_t count) {
    if (count <= few_.size()) return few_.data();
    many_.resize(count);
    return many_.data();
  }
  void describe(const TensorView& view, tb_tensor& target) {
    target = TB_TENSOR_INIT;
    target.device = number_of(view.device);
    target.layout = internal::described(view.layout);
    target.data = const_cast<void*>(view.data);
    target.stream = view.stream;
    if (!view.keeper) return;
    keepers_.push_back(std::make_unique<std::shared_ptr<const void>>(view.keeper));
    target.keeper = keepers_.back().get();
    target.release = [](void* keeper) { delete static_cast<std::shared_ptr<const void>*>(keeper); };
  }

  tb_message message_ = TB_MESSAGE_INIT;
  std::array<tb_tensor, 3> few_;
  std::vector<tb_tensor> many_;
  std::vector<Keeper> keepers_;
  std::optional<tb_origin> origin_;
};

}  // namespace internal
}  // namespace tensorbus::inline v0
