// What tests in Python ask of files in C++ (tests/python/files/test_cpp_files.py).

#include <cstdio>

#include "support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

std::string text_of(const Dims& dims) {
  std::string text;
  for (const std::int64_t value : dims) text += (text.empty() ? "" : ",") + std::to_string(value);
  return text;
}

// All bytes that the tensor spans, which has no gaps.
std::string hexadecimal(const Tensor& tensor) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < tensor.layout().packed_bytes(); ++i) {
    const auto byte = static_cast<unsigned>(tensor.data()[i]);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

void tell_tensor(const std::string& name, const Tensor& tensor) {
  std::printf("tensor\t%s\t%s\t%s\t%s\t%s\n", name.c_str(),
              std::string(name_of(tensor.dtype())).c_str(), text_of(tensor.shape()).c_str(),
              text_of(tensor.strides()).c_str(), hexadecimal(tensor).c_str());
}

void tell_contents(const MappedFile& file, bool named) {
  for (const auto& [key, value] : file.metadata())
    std::printf("metadata\t%s\t%s\n", key.c_str(), value.c_str());
  for (const std::string& name : file.names()) tell_tensor(name, file.tensor(name));
  if (!named) tell_tensor("", file.tensor());
}

// Arguments: a dtype, or "" for what the file says, and a path. A line for each tensor; or the
// number of the code, and why not.
int tell_file(const std::vector<std::string>& arguments) {
  FileOptions options;
  if (!arguments.at(0).empty()) options.dtype = dtype_named(arguments[0]);
  const std::string& path = arguments.at(1);
  try {
    tell_contents(MappedFile(path, options), path.ends_with(".safetensors"));
  } catch (const Error& error) {
    std::printf("error\t%d\t%s\n", static_cast<int>(error.code()), error.what());
  }
  return 0;
}
const bool kTells = add_role("tell_file", tell_file);

// Makes a file of 2 x 3 elements of a dtype, whose bytes are 0, 1, and so on.
int make_file(const std::vector<std::string>& arguments) {
  const MappedFile file(arguments.at(1), {.mode = FileMode::kCreate,
                                          .dtype = dtype_named(arguments.at(0)).value(),
                                          .shape = Dims{2, 3}});
  const Tensor tensor = file.tensor();
  for (std::size_t i = 0; i < tensor.layout().packed_bytes(); ++i)
    tensor.mutable_data()[i] = static_cast<std::byte>(i);
  file.flush();
  return 0;
}
const bool kMakes = add_role("make_file", make_file);

}  // namespace
}  // namespace tensorbus
