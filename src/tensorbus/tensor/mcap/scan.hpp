#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensorbus/tensor/files/file_bytes.hpp"
#include "tensorbus/tensor/mcap/contents.hpp"

namespace tensorbus::tensor::mcap {

// Finds the records of a file without a valid end, from its beginning on. `recovered` and `damage`
// of the contents describe the result. Throws as read_contents() does.
[[gnu::cold]] Contents scan(const FileBytes& file);

// Adds a schema. Returns false if it is present already, and for id 0, which means none.
bool add_schema(Schema schema, Contents& contents);
// Adds a metadata record about the recorder or about lost messages. Ignores other records.
void note_metadata(std::span<const std::byte> content, Contents& contents);

}  // namespace tensorbus::tensor::mcap
