#include "tensorbus/bus/publish/loan.hpp"

#include <utility>

#include "tensorbus/bus/publish/loan_impl.hpp"

namespace tensorbus {

Loan Loan::Impl::of(memory::BlockRef block, const Layout& layout, const ByteSpan& span,
                    Device device, std::shared_ptr<bus::ParticipantCore> home) {
  std::byte* const first = block->data() - span.begin;
  auto issued = std::make_shared<const link::PublishedSample>(std::move(block));
  LoanState state{std::move(home), std::move(issued), layout, span, first, device};
  return Loan(std::make_unique<Impl>(bus::ForkSafe(std::move(state))));
}

Loan::Loan(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Loan::Loan(Loan&&) noexcept = default;
Loan& Loan::operator=(Loan&&) noexcept = default;
Loan::~Loan() = default;

LoanState& Loan::state() const {
  if (!impl_) throw Error(Code::kClosed, "this loan was published or moved from");
  return *impl_->state;
}

const Layout& Loan::layout() const { return state().layout; }

std::byte* Loan::data() const { return state().first; }

TensorView Loan::view() const { return {data(), layout(), device()}; }

Device Loan::device() const { return state().device; }

void Loan::require_host() const {
  if (!device().is_host())
    throw Error(Code::kInvalidArgument,
                "this loan lies on a GPU: give data() to a kernel, the host cannot use it");
}

}  // namespace tensorbus
