#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <tensorbus/values/file_options.hpp>

#include "tensorbus/memory/file/mapped_file.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/tensor/files/file_contents.hpp"

namespace tensorbus::tensor {

// A mapped file of any format, and its tensors. Owns the mapping. Immutable: usable in any thread,
// and in forked children as in their parent.
class TENSORBUS_API TensorFile {
 public:
  // Opens or makes a file. Throws Error with the file and the field in its text: kInvalidArgument
  // for a file that is too short or inconsistent, kUnsupported for elements that no tensor can
  // have, kPermission if it may not be opened, kOutOfMemory that names the limit, kSystem. With
  // kCreate, an existing file is changed only after all options have been checked.
  TensorFile(const std::string& path, const FileOptions& options);

  const FileContents& contents() const noexcept { return contents_; }
  const memory::MappedFile& file() const noexcept { return *file_; }
  bool writable() const noexcept { return file_->mode() != memory::MappedFile::Mode::kRead; }

  // Returns the tensor with this name; `nullptr` means the only tensor of a file without names.
  // Throws Error(kInvalidArgument) that lists the names.
  const FilePlace& place(const char* name) const;
  // Throws Error(kUnsupported) if no tensor can have these elements.
  const Layout& layout(const FilePlace& place) const;
  // Returns the first element; null for a tensor without elements.
  std::byte* data(const FilePlace& place) const noexcept;

 private:
  FileContents contents_;
  std::shared_ptr<memory::MappedFile> file_;
};

}  // namespace tensorbus::tensor
