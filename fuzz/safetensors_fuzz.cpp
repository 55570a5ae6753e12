// Headers of .safetensors files. The tensors of an accepted file fill the file, and can be found by
// their names.

#include <string>

#include "fuzz/file_talk.hpp"
#include "tensorbus/tensor/files/safetensors_file.hpp"
#include "tests/unit/tensor/files/file_test_support.hpp"

namespace tensorbus::fuzz {
namespace {

// Returns the input as it is, or a header with the right length and bytes behind it.
std::string file_of(Input& input) {
  const bool as_it_comes = input.flag();
  const std::size_t data_bytes = input.byte();
  const std::string_view rest = text_of(input.rest());
  if (as_it_comes) return std::string(rest);
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(rest.size() >> (8 * i) & 0xFF);
  file += rest;
  return file + std::string(data_bytes, '\0');
}

void require_text(const std::string& text) {
  check(platform::is_utf8(text) && text.find('\0') == text.npos);
}

void run(Input input) {
  const std::string file = file_of(input);
  tensor::FileContents contents;
  if (!takes_file([&] { contents = tensor::safetensors_contents(test::Content(file).bytes()); }))
    return;
  check(contents.named && contents.start + contents.bytes == file.size());
  require_inside(contents);
  for (const tensor::FilePlace& place : contents.tensors) {
    require_text(place.name);
    check(contents.find(place.name) == &place);
  }
  for (const auto& [key, value] : contents.metadata) {
    require_text(key);
    require_text(value);
  }
}

}  // namespace
}  // namespace tensorbus::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tensorbus::fuzz::run(tensorbus::fuzz::Input(data, size));
  return 0;
}
