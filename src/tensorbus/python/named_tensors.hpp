#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tensorbus/python/outgoing.hpp"

namespace tensorbus::python {

// The fields of a message that is a dict of tensors by name, and nothing else: a MessagePack map
// (https://github.com/msgpack/msgpack/blob/master/spec.md) of strings to references, as
// tensorbus/_codec/fields.py writes them.

// Adds the tensors, and returns the fields. Returns nothing for a dict with anything else; some
// tensors may be added then.
std::optional<std::vector<std::byte>> pack_named(nb::dict dict, Outgoing& tensors);

struct NamedTensor {
  std::string_view name;  // points into the fields
  std::uint32_t index = 0;
};
// Returns nothing for any other fields.
std::optional<std::vector<NamedTensor>> unpack_named(std::span<const std::byte> fields);

}  // namespace tensorbus::python
