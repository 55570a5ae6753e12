#include "tensorbus/bus/loan.hpp"

#include <utility>

#include "tensorbus/bus/loan_impl.hpp"

namespace tensorbus {

Loan Loan::Impl::of(memory::BlockRef block, const Layout& layout) {
  LoanState state{std::move(block), layout, nullptr};
  state.first = state.block->data() - span_of(layout).begin;
  return Loan(std::make_unique<Impl>(bus::ForkSafe(std::move(state))));
}

Loan::Loan(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Loan::Loan(Loan&&) noexcept = default;
Loan& Loan::operator=(Loan&&) noexcept = default;
Loan::~Loan() = default;

const Layout& Loan::layout() const {
  if (!impl_) throw Error(Code::kClosed, "this loan was published or moved from");
  return impl_->state->layout;
}

std::byte* Loan::data() const {
  if (!impl_) throw Error(Code::kClosed, "this loan was published or moved from");
  return impl_->state->first;
}

TensorView Loan::view() const { return {data(), layout()}; }

}  // namespace tensorbus
