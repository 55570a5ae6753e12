#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {

// The fields of a message that is bytes and nothing else: MessagePack's binary format
// (https://github.com/msgpack/msgpack/blob/master/spec.md), which is a header before the bytes.

std::vector<std::byte> pack_bytes(nb::bytes bytes);
// Returns the bytes of pack_bytes(); nothing for any other fields.
std::optional<std::span<const std::byte>> unpack_bytes(std::span<const std::byte> fields);

}  // namespace tensorbus::python
