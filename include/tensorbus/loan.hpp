#pragma once

#include <tensorbus/c/share.h>
#include <tensorbus/c/tensor.h>

#include <cstddef>
#include <span>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/internal/tensors.hpp>
#include <tensorbus/participant.hpp>
#include <tensorbus/values/array_view.hpp>
#include <tensorbus/values/device.hpp>
#include <tensorbus/values/layout.hpp>
#include <tensorbus/values/message.hpp>
#include <utility>

namespace tensorbus::inline v0 {

// Shared memory of the host or a GPU, to fill and publish without a copy. Movable, not copyable.
// Destroying an unpublished loan returns its memory. Calls on a published or moved-from loan throw
// Error(kClosed).
//
//   tensorbus::Loan frame = publisher.loan<std::uint8_t>({1080, 1920, 3});
//   capture(frame.as<std::uint8_t>());
//   publisher.publish(std::move(frame));
class Loan {
 public:
  const Layout& layout() const { return alive().layout_; }
  Device device() const { return alive().device_; }
  // The first element. Only kernels may access GPU memory.
  std::byte* data() const { return alive().data_; }
  TensorView view() const { return {data(), layout(), device()}; }

  // Returns the elements, writable. Throws Error(kInvalidArgument) for another element type, for
  // GPU memory, and for a layout that is not contiguous.
  template <typename T>
  std::span<T> as() const {
    internal::require_host(device(), "loan");
    internal::require_type(layout(), dtype_of<T>(), "loan");
    internal::require_contiguous(layout(), "loan");
    return {reinterpret_cast<T*>(data_), layout_.elements()};
  }
  // Returns the elements for access by index, with any strides: see ArrayView. Also throws
  // Error(kInvalidArgument) for another rank.
  //   const auto rows = loan.view<float, 2>();
  //   rows(1, 2) = 0.5F;
  template <typename T, std::size_t Rank>
  ArrayView<T, Rank> view() const {
    internal::require_host(device(), "loan");
    return internal::array_view<T, Rank>(reinterpret_cast<T*>(data_), layout_, "loan");
  }

 private:
  friend class Publisher;
  friend Loan empty(const Layout& layout, bool shared, const Participant& participant,
                    Device device);
  using Owner = internal::Owned<tb_loan, tb_loan_destroy>;

  Loan(Owner loan, Layout layout, Device device)
      : loan_(std::move(loan)), layout_(std::move(layout)), device_(device) {
    tb_tensor tensor = TB_TENSOR_INIT;
    internal::require_done(tb_loan_tensor(loan_.get(), &tensor));
    data_ = static_cast<std::byte*>(tensor.data);
  }
  const Loan& alive() const {
    if (!loan_) throw Error(Code::kClosed, "this loan was published or moved from");
    return *this;
  }

  Owner loan_;
  Layout layout_;
  Device device_{};
  std::byte* data_ = nullptr;
};

// Allocates memory of the bus that this process keeps. It may be filled, shared and published by
// reference any number of times; all holders see later writes. `shared`: other processes can also
// get write access. The bytes are not cleared. Throws Error(kOutOfMemory), which names the limit,
// or Error(kUnsupported) with the reason if GPU memory is not available.
//
//   tensorbus::Loan state = tensorbus::empty(Layout::contiguous(DType::kFloat32, {7}), true);
inline Loan empty(const Layout& layout, bool shared = false,
                  const Participant& participant = Participant::shared(),
                  Device device = Device::host()) {
  const tb_layout given = internal::described(layout);
  return Loan(internal::created<Loan::Owner>([&](tb_loan** memory) {
                return tb_empty(internal::get(participant), &given, internal::number_of(device),
                                shared ? 1 : 0, memory);
              }),
              layout, device);
}

}  // namespace tensorbus::inline v0
