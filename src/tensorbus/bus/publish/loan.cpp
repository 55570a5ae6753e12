#include "tensorbus/bus/publish/loan.hpp"

#include <utility>

#include "tensorbus/bus/publish/loan_state.hpp"

namespace tensorbus::bus {

Loan::Loan(memory::BlockRef block, const Layout& layout, const ByteSpan& span, Device device,
           std::shared_ptr<Participant> home) {
  std::byte* const first = block->data() - span.begin;
  auto issued = std::make_shared<const link::PublishedSample>(std::move(block));
  state_.emplace(std::move(home), std::move(issued), layout, span, first, device);
}
Loan::Loan(Loan&&) noexcept = default;
Loan& Loan::operator=(Loan&&) noexcept = default;
Loan::~Loan() = default;

const Layout& Loan::layout() const { return state_->layout; }

std::byte* Loan::data() const { return state_->first; }

TensorView Loan::view() const { return {data(), layout(), device()}; }

Device Loan::device() const { return state_->device; }

void Loan::require_host() const {
  if (!device().is_host())
    throw Error(Code::kInvalidArgument,
                "this loan lies on a GPU: give data() to a kernel, the host cannot use it");
}

}  // namespace tensorbus::bus
