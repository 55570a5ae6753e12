#pragma once

#include <cstdint>
#include <optional>
#include <tensorbus/values/dims.hpp>
#include <tensorbus/values/dtype.hpp>

namespace tensorbus::inline v0 {

// The effect of a write to the tensors of a mapped file.
enum class FileMode {
  kRead,         // a write ends the process (SIGSEGV)
  kReadWrite,    // writes go to the file: all processes that map or read it see them at once
  kCopyOnWrite,  // writes stay private: each written page is copied
  kCreate,       // as kReadWrite, on a new or emptied file with all its blocks allocated
};

// How a file is mapped. A .npy or .safetensors file describes its tensors. Any other file holds
// only the elements of one tensor, row-major, in the byte order of the machine; `dtype` is then
// needed.
struct FileOptions {
  FileMode mode = FileMode::kRead;
  // For .npy: must equal the dtype in the file, or be the type of elements that NumPy saves as
  // bytes (it saves bfloat16 as '|V2'). Not for .safetensors.
  std::optional<DType> dtype{};
  // One size may be -1: it is computed from the file's size. Empty: the whole file. For .npy it
  // must equal the shape in the file. Not for .safetensors. Required, without -1, with kCreate.
  std::optional<Dims> shape{};
  // Bytes before the tensor; only for files that do not describe themselves.
  std::uint64_t offset = 0;
};

}  // namespace tensorbus::inline v0
