#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {

// Everyday values as items, without looking for tensors: numbers, texts, small containers. Their
// pickle is the C pickler's. The message is the one that Python's `pickler` makes of any object, in
// a form that is recognised by its first bytes. With the GIL.

// Returns true for an everyday value, in which no tensor can be.
bool is_plain(nb::handle item);
// Appends the fields of the message of such a value. Returns how many bytes. Throws what pickling
// it raises.
std::size_t append_plain(nb::handle item, std::vector<std::byte>& to);
// Returns the pickle in such fields; nothing for others, and for one that names something of
// PyTorch's: of those, `pickler` looks at the numbers.
std::optional<std::span<const std::byte>> plain_pickle(std::span<const std::byte> fields);
// Returns the value of such fields; an empty object for others. Throws what unpickling it raises.
nb::object load_plain(std::span<const std::byte> fields);

}  // namespace tensorbus::python
