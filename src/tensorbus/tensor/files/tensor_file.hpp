#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <tensorbus/file_options.hpp>

#include "tensorbus/memory/file/mapped_file.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/tensor/files/file_contents.hpp"

namespace tensorbus {

// A file whose tensors lie in memory, whatever its format. It does not change once it is made; in
// forked children it is as good as in their parent.
class TENSORBUS_API TensorFile {
 public:
  // Throws Error, whose message names the file and the field: kInvalidArgument for a file that is
  // too short, or not what it says; kUnsupported for elements that no tensor has; kPermission if it
  // may not be opened; kOutOfMemory that names the limit; kSystem. With kCreate a file that is
  // there is not touched before all options are known to be right.
  TensorFile(const std::string& path, const FileOptions& options);

  const FileContents& contents() const noexcept { return contents_; }
  const memory::MappedFile& file() const noexcept { return *file_; }
  bool writable() const noexcept { return file_->mode() != memory::MappedFile::Mode::kRead; }

  // The tensor of this name; the only one of a file without names is that of `nullptr`. Throws
  // Error(kInvalidArgument) that says which there are.
  const FilePlace& place(const char* name) const;
  // Throws Error(kUnsupported) if there are no tensors of such elements.
  const Layout& layout(const FilePlace& place) const;
  // The first element; null for a tensor without any.
  std::byte* data(const FilePlace& place) const noexcept;

 private:
  FileContents contents_;
  std::shared_ptr<memory::MappedFile> file_;
};

}  // namespace tensorbus
