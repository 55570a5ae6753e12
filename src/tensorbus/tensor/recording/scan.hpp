#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensorbus/tensor/files/file_bytes.hpp"
#include "tensorbus/tensor/recording/contents.hpp"

namespace tensorbus::recording {

// Finds the records of a file without a right end, from its beginning on. `recovered` and `damage`
// of the contents say what it found. Throws as read_contents().
[[gnu::cold]] Contents scan(const FileBytes& file);

// Adds a schema. Returns false for one that is there already, and for id 0, which names none.
bool add_schema(Schema schema, Contents& contents);
// Adds what a metadata record says of the recorder, or of lost messages. Others are ignored.
void note_metadata(std::span<const std::byte> content, Contents& contents);

}  // namespace tensorbus::recording
