#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>

#include "tensorbus/tensor/layout.hpp"

namespace tensorbus::python {

// A capsule "dltensor" (DLPack, unversioned: https://dmlc.github.io/dlpack/latest/) over memory
// that `owner` keeps. The owner is let go when the taker is done, in any thread, with or without
// the GIL.
nanobind::capsule make_dlpack_capsule(const Layout& layout, std::byte* first,
                                      std::shared_ptr<void> owner);

}  // namespace tensorbus::python
