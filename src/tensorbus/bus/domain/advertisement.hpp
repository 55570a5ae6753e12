#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tensorbus::bus {

// What is in a marker: who a publisher or a node is, for those who list the domain. Nothing that
// the bus relies upon.
struct Advertisement {
  std::uint32_t pid = 0;
  std::string name{};        // of the topic or the node; the marker's own may be cut
  std::string node{};        // that a publisher belongs to
  std::string definition{};  // of the type of its messages; empty: any
  void visit(auto& archive) { archive(pid, name, node, definition); }
};

std::string encode(const Advertisement& advertisement);
// Empty for anything else: a marker that is being written, or somebody else's file.
std::optional<Advertisement> decode_advertisement(std::string_view content);

}  // namespace tensorbus::bus
