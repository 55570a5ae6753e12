#pragma once

#include <cstdint>
#include <optional>
#include <tensorbus/dims.hpp>
#include <tensorbus/dtype.hpp>

namespace tensorbus::inline v0 {

// What writing to the tensors of a mapped file does.
enum class FileMode {
  kRead,         // it is a crash
  kReadWrite,    // it is the file's: all who map or read it see it at once
  kCopyOnWrite,  // it is ours alone, a page of private memory for each page written
  kCreate,       // as kReadWrite, to a file that is made, or emptied, first, with all its blocks
};

// How a file is mapped, and what the caller says of it. A file called .npy or .safetensors says
// itself what is in it. Any other has nothing but the elements of one tensor, row-major, in the
// byte order of the machine: it needs a dtype.
struct FileOptions {
  FileMode mode = FileMode::kRead;
  // Of .npy it must be what the file says, or give a meaning to its bytes (bfloat16, which NumPy
  // does not know, and saves as '|V2'). Not for .safetensors.
  std::optional<DType> dtype{};
  // One size may be -1: as many as there are. Without it all is taken that is there. Of .npy it
  // must be what the file says. Not for .safetensors. To be given, without -1, with kCreate.
  std::optional<Dims> shape{};
  // The bytes before the tensor, of a file that does not say itself where it begins.
  std::uint64_t offset = 0;
};

}  // namespace tensorbus::inline v0
