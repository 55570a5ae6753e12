// Headers of .npy files. The tensor of an accepted file lies behind the header. Its layout is
// written and read again without a change.

#include <optional>
#include <string>

#include "fuzz/file_talk.hpp"
#include "tensorbus/tensor/files/npy_file.hpp"
#include "tests/unit/tensor/files/file_test_support.hpp"

namespace tensorbus::fuzz {
namespace {

// Returns the input as it is, or behind a valid beginning.
std::string file_of(Input& input) {
  const std::uint8_t version = input.byte() % 4;
  const std::string_view rest = text_of(input.rest());
  if (version == 0) return std::string(rest);
  std::string file = "\x93NUMPY";
  file += {static_cast<char>(version), '\0'};
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    file += static_cast<char>(rest.size() >> (8 * i) & 0xFF);
  return file + std::string(rest);
}

FileOptions options_of(Input& input) {
  FileOptions options;
  if (input.flag()) options.dtype = static_cast<DType>(input.below(50));
  return options;
}

tensor::FileContents contents_of(const std::string& file, const FileOptions& options) {
  return tensor::npy_contents(test::Content(file).bytes(), options);
}

void run(Input input) {
  const FileOptions options = options_of(input);
  const std::string file = file_of(input);
  tensor::FileContents contents;
  if (!takes_file([&] { contents = contents_of(file, options); })) return;
  check(contents.start <= file.size() && contents.tensors.size() == 1);
  require_inside(contents);
  const Layout& layout = contents.tensors[0].layout.value();
  check(contents.bytes == layout.packed_bytes());
  check(!options.dtype || layout.dtype == *options.dtype);

  const Layout packed = Layout::contiguous(layout.dtype, layout.shape);
  const tensor::FileContents again =
      contents_of(tensor::npy_header(packed), {.dtype = layout.dtype});
  check(again.tensors[0].layout == packed && again.start % 64 == 0);
}

}  // namespace
}  // namespace tensorbus::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tensorbus::fuzz::run(tensorbus::fuzz::Input(data, size));
  return 0;
}
