#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tensorbus::bus {

// The content of a marker: describes a publisher or node to programs that list the domain. The bus
// itself does not rely on it.
struct Advertisement {
  std::uint32_t pid = 0;
  std::string name{};  // of the topic or the node; the name in the marker's file name may be cut
  std::string node{};  // to which a publisher belongs
  std::string definition{};  // of its message type; empty: any
  void visit(auto& archive) { archive(pid, name, node, definition); }
};

std::string encode(const Advertisement& advertisement);
// Returns nothing for other content: a marker that is being written, or another program's file.
std::optional<Advertisement> decode_advertisement(std::string_view content);

}  // namespace tensorbus::bus
