#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {

// Plain values as items: numbers, texts, small containers. They need no search for tensors, and are
// pickled by the C implementation of the module pickle. The message has the format of the Python
// module `pickler`; its first bytes identify a plain item. Used with the GIL.

// Returns true for a plain value, which cannot contain a tensor.
bool is_plain(nb::handle item);
// Appends the fields of the message of a plain value. Returns their size in bytes. Throws what
// pickling raises.
std::size_t append_plain(nb::handle item, std::vector<std::byte>& to);
// Returns the pickle in these fields. Returns nothing for other fields, and for a pickle that
// refers to PyTorch, because `pickler` must check its indices.
std::optional<std::span<const std::byte>> plain_pickle(std::span<const std::byte> fields);
// Returns the value in these fields; an empty object for other fields. Throws what unpickling
// raises.
nb::object load_plain(std::span<const std::byte> fields);

}  // namespace tensorbus::python
