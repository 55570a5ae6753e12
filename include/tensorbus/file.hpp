#pragma once

#include <tensorbus/c/file.h>

#include <cstdint>
#include <map>
#include <string>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/internal/file_ref.hpp>
#include <tensorbus/tensor.hpp>
#include <tensorbus/values/file_options.hpp>
#include <vector>

namespace tensorbus::inline v0 {

// A mapped file and its tensors. Pages are read on first access; processes that map the same file
// share the page cache, so files may be larger than the machine's memory. docs/files.md describes
// the formats, and files that change while mapped. A handle: copies refer to the same mapping, and
// tensors keep it alive. Usable in forked children.
//
//   const tensorbus::MappedFile model("model.safetensors");
//   publisher.publish(model.tensor("weight").view());  // by reference: receivers map the file, too
//
//   const tensorbus::MappedFile counts(
//       "counts.npy", {.mode = tensorbus::FileMode::kCreate,
//                      .dtype = tensorbus::DType::kInt64,
//                      .shape = tensorbus::Dims{2, 3}});
//   counts.tensor().as_mutable<std::int64_t>()[5] = 7;
//   counts.flush();
class MappedFile {
 public:
  // Maps a file. Throws Error that names the file and the field: kInvalidArgument if it is too
  // short, inconsistent, or contradicts the options; kUnsupported for elements that no tensor can
  // have; kPermission; kOutOfMemory if the disk or the address space is full; kSystem, e.g. if
  // there is no such file.
  explicit MappedFile(const std::string& path, const FileOptions& options = {})
      : file_(mapped(path, options)) {}

  // Returns the names of a .safetensors file's tensors, in its order; none for other files.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (std::uint32_t i = 0; i < tb_file_tensor_count(alive()); ++i)
      if (const char* const name = tb_file_tensor_name(alive(), i)) names.emplace_back(name);
    return names;
  }
  // Returns the metadata of a .safetensors file (`__metadata__`).
  std::map<std::string, std::string> metadata() const {
    std::map<std::string, std::string> metadata;
    for (std::uint32_t i = 0; i < tb_file_metadata_count(alive()); ++i)
      metadata.emplace(tb_file_metadata_key(alive(), i), tb_file_metadata_value(alive(), i));
    return metadata;
  }

  // Returns the only tensor of a file without names. Throws Error(kInvalidArgument) for a
  // .safetensors file.
  Tensor tensor() const { return tensor_named(nullptr); }
  // Returns a tensor of a .safetensors file. Throws Error(kInvalidArgument) that lists the names,
  // Error(kUnsupported) for the packed F6 types, which no tensor can have.
  Tensor tensor(const std::string& name) const {
    return tensor_named(internal::c_text(name, "the name"));
  }

  // Checks that the memory has the contents of the file. Throws Error(kSystem) if the file was cut
  // short, a page could not be read or written, or (unless writes reach the file) the file was
  // written to since it was mapped. Call it after reading: only then can the data be trusted.
  void check() const { internal::require_done(tb_file_check(alive())); }
  // Waits until all writes are on the disk; other processes see writes at once. Throws
  // Error(kInvalidArgument) if writes do not reach the file, else as check() does.
  void flush() const { internal::require_done(tb_file_flush(alive())); }

 private:
  static internal::FileRef mapped(const std::string& path, const FileOptions& options) {
    tb_file_options given = TB_FILE_OPTIONS_INIT;
    given.mode = static_cast<std::int32_t>(options.mode);
    given.offset = options.offset;
    given.dtype = options.dtype ? static_cast<tb_dtype>(*options.dtype) : tb_dtype{0};
    if (options.shape) {
      given.shape = options.shape->begin();
      given.dims = static_cast<std::uint32_t>(options.shape->size());
    }
    return internal::created<internal::FileRef>([&](tb_file** file) {
      return tb_file_map(internal::c_text(path, "the path"), &given, file);
    });
  }
  Tensor tensor_named(const char* name) const {
    tb_tensor described = TB_TENSOR_INIT;
    internal::require_done(tb_file_tensor_named(alive(), name, &described));
    return Tensor(file_, described);
  }
  tb_file* alive() const { return internal::living(file_, "mapped file"); }

  internal::FileRef file_;
};

// Maps the only tensor of a file, without reading it.
//
//   const auto frames = tensorbus::map_file("frames.npy");
//   const auto weights = tensorbus::map_file("weights.f32", {.dtype = tensorbus::DType::kFloat32});
inline Tensor map_file(const std::string& path, const FileOptions& options = {}) {
  return MappedFile(path, options).tensor();
}

}  // namespace tensorbus::inline v0
