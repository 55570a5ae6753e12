#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <tensorbus/values/layout.hpp>
#include <tensorbus/values/message.hpp>

#include "tensorbus/bus/event_loop/fork_safe.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/tensor/layout.hpp"

namespace tensorbus::memory {
class BlockRef;
}

namespace tensorbus::bus {

class Participant;
class Publisher;
struct LoanState;

// Memory of the bus, on the host or on a GPU, that a program fills and publishes. A loan that is
// destroyed before that returns its memory. Used by one thread. See include/tensorbus/loan.hpp.
class TENSORBUS_API Loan {
 public:
  // `span` must be the span of `layout`, and `block` large enough for it.
  Loan(memory::BlockRef block, const Layout& layout, const ByteSpan& span,
       Device device = Device::host(), std::shared_ptr<Participant> home = {});

  Loan(Loan&&) noexcept;
  Loan& operator=(Loan&&) noexcept;
  ~Loan();

  const Layout& layout() const;
  Device device() const;
  std::byte* data() const;  // on a GPU: for kernels only, not for the host
  TensorView view() const;

  // Returns the elements for writing. Throws Error(kInvalidArgument) for another type, or on a GPU.
  template <typename T>
  std::span<T> as() const {
    require_host();
    if (layout().dtype != dtype_of<T>())
      throw Error(Code::kInvalidArgument, "this loan is " + std::string(name_of(layout().dtype)) +
                                              ", not " + std::string(name_of(dtype_of<T>())));
    return {reinterpret_cast<T*>(data()), layout().elements()};
  }

 private:
  friend class Publisher;
  void require_host() const;

  ForkSafe<LoanState> state_;
};

}  // namespace tensorbus::bus
