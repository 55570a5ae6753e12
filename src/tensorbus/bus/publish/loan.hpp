#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <tensorbus/layout.hpp>
#include <tensorbus/message.hpp>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/tensor/layout.hpp"

namespace tensorbus {

// Shared memory, of the host or of a GPU, to fill and publish: nothing is copied. Moves, does not
// copy. A loan that is dropped without being published gives its memory back.
class TENSORBUS_API Loan {
 public:
  Loan(Loan&&) noexcept;
  Loan& operator=(Loan&&) noexcept;
  ~Loan();

  const Layout& layout() const;
  Device device() const;
  std::byte* data() const;  // of a GPU's memory: for its kernels, not for the host
  TensorView view() const;

  // The elements, to be written. Throws Error(kInvalidArgument) for another element type.
  template <typename T>
  std::span<T> as() const {
    require_host();
    if (layout().dtype != dtype_of<T>())
      throw Error(Code::kInvalidArgument, "this loan is " + std::string(name_of(layout().dtype)) +
                                              ", not " + std::string(name_of(dtype_of<T>())));
    return {reinterpret_cast<T*>(data()), layout().elements()};
  }

 private:
  struct LoanState& state() const;
  void require_host() const;
  friend class Publisher;
  friend TENSORBUS_API Loan empty(const Layout& layout, bool shared,
                                  const class Participant& participant, Device device);
  struct Impl;
  explicit Loan(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tensorbus
