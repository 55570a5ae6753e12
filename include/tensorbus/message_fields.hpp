#pragma once

#include <memory>
#include <optional>
#include <tensorbus/loan.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/values/error.hpp>
#include <tensorbus/values/message.hpp>
#include <utility>

namespace tensorbus::inline v0 {

// A tensor in a message. A field to send has a view or a loan. The memory of a view must stay until
// the message is sent. The field keeps the loan, whose memory is sent by reference. A received
// field has the received tensor, which keeps its lease.
class TensorField {
 public:
  TensorField() = default;
  TensorField(TensorView view) : view_(std::move(view)) {}
  TensorField(Tensor received)
      : view_{received.data(), received.layout(), received.device()},
        received_(std::move(received)) {}
  TensorField(Loan loan) : TensorField(std::make_shared<const Loan>(std::move(loan))) {}
  // `keeper` keeps the memory while this object or a copy of it lives.
  TensorField(TensorView view, std::shared_ptr<const void> keeper)
      : view_(std::move(view)), keeper_(std::move(keeper)) {}

  const TensorView& view() const noexcept { return view_; }
  // Returns the received tensor. Throws Error(kInvalidArgument) for a field that was not received.
  const Tensor& tensor() const {
    if (!received_) throw Error(Code::kInvalidArgument, "this field was not received");
    return *received_;
  }

 private:
  explicit TensorField(const std::shared_ptr<const Loan>& loan) : TensorField(loan->view(), loan) {}

  TensorView view_;
  std::optional<Tensor> received_;
  std::shared_ptr<const void> keeper_;
};
// A tensor that is an np.ndarray in Python.
struct ArrayField : TensorField {
  using TensorField::TensorField;
};
// A tensor that is a torch.Tensor in Python.
struct TorchField : TensorField {
  using TensorField::TensorField;
};

}  // namespace tensorbus::inline v0
