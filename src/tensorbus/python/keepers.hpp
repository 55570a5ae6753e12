#pragma once

#include <memory>

#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {

// Returns a keeper that holds the object. The last copy of the keeper may be destroyed in any
// thread, with or without the GIL; the object is released soon afterwards, with the GIL. Called
// with the GIL.
std::shared_ptr<const void> keeper_of(nb::object value);
// Releases the objects whose keepers are gone. Called with the GIL.
void let_go_of_kept() noexcept;

}  // namespace tensorbus::python
