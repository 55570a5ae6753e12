#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/tensor/layout.hpp"

namespace tensorbus::tensor {

// Throws Error(kInvalidArgument) for an invalid file or request.
[[noreturn]] inline void refuse_file(const std::string& why) {
  throw Error(Code::kInvalidArgument, why);
}

// The place of a tensor in a file.
struct FilePlace {
  std::string name;              // "" in a file with one unnamed tensor
  std::optional<Layout> layout;  // none if no tensor can have these elements
  std::string elements{};        // the file's own name of the element type
  std::size_t offset = 0;        // in bytes, from the first mapped byte
};

struct FileContents {
  std::size_t start = 0;  // the first mapped byte
  std::size_t bytes = 0;
  std::vector<FilePlace> tensors;
  bool named = false;  // true for formats that name tensors
  std::vector<std::uint32_t> by_name{};
  std::vector<std::pair<std::string, std::string>> metadata{};

  // For formats that name tensors. Returns null if no tensor has this name.
  const FilePlace* find(std::string_view name) const noexcept {
    const auto name_of = [this](std::uint32_t i) -> std::string_view { return tensors[i].name; };
    const auto found = std::ranges::lower_bound(by_name, name, {}, name_of);
    return found != by_name.end() && name_of(*found) == name ? &tensors[*found] : nullptr;
  }
};

// Describes one unnamed tensor that begins at byte `start`.
inline FileContents contents_of_one(Layout layout, std::size_t start) {
  const std::size_t bytes = span_of(layout).bytes();
  FileContents contents{.start = start, .bytes = bytes, .tensors = {}};
  contents.tensors.push_back({.name = {}, .layout = std::move(layout)});
  return contents;
}

}  // namespace tensorbus::tensor
