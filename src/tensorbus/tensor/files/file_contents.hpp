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

namespace tensorbus {

// Throws Error(kInvalidArgument): a file, or what was asked of it, makes no sense.
[[noreturn]] inline void refuse_file(const std::string& why) {
  throw Error(Code::kInvalidArgument, why);
}

// Where a tensor lies in a file.
struct FilePlace {
  std::string name;              // "" in a file that has one tensor, without a name
  std::optional<Layout> layout;  // none, where there are no tensors of such elements
  std::string elements{};        // what the file calls those
  std::size_t offset = 0;        // in bytes, from the first that is mapped
};

// What a file holds.
struct FileContents {
  std::size_t start = 0;  // the first byte that is mapped
  std::size_t bytes = 0;
  std::vector<FilePlace> tensors;
  bool named = false;  // a file of a format that has names
  std::vector<std::uint32_t> by_name{};
  std::vector<std::pair<std::string, std::string>> metadata{};

  // Of a format that has names.
  const FilePlace* find(std::string_view name) const noexcept {
    const auto name_of = [this](std::uint32_t i) -> std::string_view { return tensors[i].name; };
    const auto found = std::ranges::lower_bound(by_name, name, {}, name_of);
    return found != by_name.end() && name_of(*found) == name ? &tensors[*found] : nullptr;
  }
};

// One tensor without a name, from `start` on.
inline FileContents contents_of_one(Layout layout, std::size_t start) {
  const std::size_t bytes = span_of(layout).bytes();
  FileContents contents{.start = start, .bytes = bytes, .tensors = {}};
  contents.tensors.push_back({.name = {}, .layout = std::move(layout)});
  return contents;
}

}  // namespace tensorbus
