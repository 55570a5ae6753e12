#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tensorbus::bus {

inline constexpr std::size_t kMaxMarkerBytes = 65'536;

// The content of a marker: describes a publisher or node to programs that list the domain. The bus
// itself does not rely on it.
struct Advertisement {
  std::uint32_t pid = 0;
  std::string name{};  // of the topic or the node; the name in the marker's file name may be cut
  std::string node{};  // the node of a publisher
  std::string definition{};  // of its message type; empty: any
  std::uint32_t depth = 0;   // from here on for publishers; an older process does not write these
  std::uint32_t history = 0;
  std::uint32_t reliable = 0;
  std::string machine{};  // for a mirror: the other machine's name; empty: not a mirror
  // For a mirror: the name on that machine of the publisher that it represents.
  std::string origin{};
  void visit(auto& archive) {
    archive(pid, name, node, definition, depth, history, reliable, machine, origin);
  }
};

std::string encode(const Advertisement& advertisement);
// Returns an empty result for other content: a marker that is being written, or another program's
// file.
std::optional<Advertisement> decode_advertisement(std::string_view content);

}  // namespace tensorbus::bus
