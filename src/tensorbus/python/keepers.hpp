#pragma once

#include <memory>

#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {

// Keeps the object until the last copy is gone, in whatever thread, with or without the GIL: it is
// let go of where that is held, soon afterwards. With the GIL.
std::shared_ptr<const void> keeper_of(nb::object value);
// Lets go of what waits for that. With the GIL.
void let_go_of_kept() noexcept;

}  // namespace tensorbus::python
