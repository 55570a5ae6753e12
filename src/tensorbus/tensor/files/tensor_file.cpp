#include "tensorbus/tensor/files/tensor_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/platform/utf8.hpp"
#include "tensorbus/tensor/files/file_bytes.hpp"
#include "tensorbus/tensor/files/npy_file.hpp"
#include "tensorbus/tensor/files/raw_file.hpp"
#include "tensorbus/tensor/files/safetensors_file.hpp"

namespace tensorbus::tensor {
namespace {

using memory::about_file;
using memory::MappedFile;

enum class Format { kRaw, kNpy, kSafetensors };

Format format_of(std::string_view path) {
  if (path.ends_with(".npy")) return Format::kNpy;
  return path.ends_with(".safetensors") ? Format::kSafetensors : Format::kRaw;
}

// Returns the result of `work`, and adds the name of the file to its errors.
template <typename Work>
auto about(const std::string& path, Work work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.code(), about_file(path) + error.what());
  }
}

void check_options(Format format, const FileOptions& options) {
  if (format == Format::kRaw) return;
  if (options.offset != 0)
    refuse_file("offset=" + std::to_string(options.offset) +
                ": not possible, because the header of the file sets it");
  if (format == Format::kNpy) return;
  if (options.mode == FileMode::kCreate)
    refuse_file(
        "a .safetensors file has a header for all its tensors and cannot be made here: write it "
        "with safetensors.torch.save_file, then map it to read and write");
  if (options.shape)
    refuse_file("shape=" + text_of(*options.shape) + ": the header of the file sets it");
  if (options.dtype)
    refuse_file("dtype=" + std::string(name_of(*options.dtype)) +
                ": the header of the file sets it");
}

MappedFile::Mode mode_of(FileMode mode) {
  switch (mode) {
    case FileMode::kRead:
      return MappedFile::Mode::kRead;
    case FileMode::kCopyOnWrite:
      return MappedFile::Mode::kCopyOnWrite;
    case FileMode::kReadWrite:
    case FileMode::kCreate:
      return MappedFile::Mode::kReadWrite;
  }
  refuse_file("mode: unknown number");
}

// Non-blocking: opening a pipe must not wait for its other end.
int flags_of(FileMode mode) {
  const int common = O_CLOEXEC | O_NONBLOCK;
  if (mode == FileMode::kCreate) return common | O_RDWR | O_CREAT;
  return common | (mode == FileMode::kReadWrite ? O_RDWR : O_RDONLY);
}

[[noreturn]] void throw_not_opened(int error_number) {
  const std::string what = "opening it";
  if (error_number == EACCES || error_number == EPERM || error_number == EROFS)
    throw Error(Code::kPermission, what + ": " + std::generic_category().message(error_number));
  platform::throw_system(what, error_number, platform::During::kFile);
}

platform::Fd opened(const std::string& path, FileMode mode) {
  platform::Fd fd(::open(path.c_str(), flags_of(mode), 0666));
  if (!fd) throw_not_opened(errno);
  return fd;
}

FileContents contents_in(int fd, Format format, const FileOptions& options) {
  const FileBytes bytes(fd);
  switch (format) {
    case Format::kNpy:
      return npy_contents(bytes, options);
    case Format::kSafetensors:
      return safetensors_contents(bytes);
    case Format::kRaw:
      break;
  }
  return raw_contents(options, bytes.size());
}

void write_header(int fd, std::string_view header) {
  std::size_t at = 0;
  while (at < header.size()) {
    const ssize_t part =
        ::pwrite(fd, header.data() + at, header.size() - at, static_cast<off_t>(at));
    if (part < 0 && errno != EINTR)
      platform::throw_system("writing its header", errno, platform::During::kFile);
    if (part > 0) at += static_cast<std::size_t>(part);
  }
}

// Returns the size in bytes of a file with these contents.
std::size_t end_of(const FileContents& contents) {
  std::size_t end = 0;
  if (__builtin_add_overflow(contents.start, contents.bytes, &end) || end > INT64_MAX)
    refuse_file("offset=" + std::to_string(contents.start) +
                ": the file would exceed 2^63 - 1 bytes");
  return end;
}

// Returns the contents and the header of a new file.
std::pair<FileContents, std::string> planned(Format format, const FileOptions& options) {
  Layout layout = planned_layout(options);
  std::string header = format == Format::kNpy ? npy_header(layout) : std::string();
  const std::size_t start = format == Format::kNpy ? header.size() : options.offset;
  FileContents contents = contents_of_one(std::move(layout), start);
  (void)end_of(contents);
  return {std::move(contents), std::move(header)};
}

}  // namespace

TensorFile::TensorFile(const std::string& path, const FileOptions& options) {
  const Format format = format_of(path);
  const MappedFile::Mode mode = about(path, [&] {
    check_options(format, options);
    return mode_of(options.mode);
  });
  std::string header;
  if (options.mode == FileMode::kCreate)
    std::tie(contents_, header) = about(path, [&] { return planned(format, options); });
  const platform::Fd fd = about(path, [&] { return opened(path, options.mode); });
  if (options.mode == FileMode::kCreate) {
    memory::allocate_file(fd.get(), path, end_of(contents_));
    about(path, [&] { write_header(fd.get(), header); });
  } else {
    contents_ = about(path, [&] { return contents_in(fd.get(), format, options); });
  }
  file_ = std::make_shared<MappedFile>(fd.get(), path, contents_.start, contents_.bytes, mode);
}

const FilePlace& TensorFile::place(const char* name) const {
  const bool wants_named = name != nullptr;
  if (wants_named == contents_.named) {
    const FilePlace* const found = wants_named ? contents_.find(name) : contents_.tensors.data();
    if (found != nullptr) return *found;
  }
  std::string known = "it has one tensor, without a name";
  if (contents_.named) {
    known = "it has " + std::to_string(contents_.tensors.size()) + " tensors";
    for (std::size_t i = 0; i < contents_.tensors.size() && i < 20; ++i)
      known += (i == 0 ? ": " : ", ") + platform::in_quotes(contents_.tensors[i].name);
  }
  refuse_file(about_file(file_->path()) + "there is no tensor " +
              (wants_named ? platform::in_quotes(name) : "without a name") + "; " + known);
}

const Layout& TensorFile::layout(const FilePlace& place) const {
  if (!place.layout)
    throw Error(Code::kUnsupported, about_file(file_->path()) + platform::in_quotes(place.name) +
                                        ": no dtype for its elements, " + place.elements);
  return *place.layout;
}

std::byte* TensorFile::data(const FilePlace& place) const noexcept {
  if (!place.layout || place.layout->elements() == 0) return nullptr;
  return file_->bytes().data() + place.offset;
}

}  // namespace tensorbus::tensor
