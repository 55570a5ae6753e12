#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tensorbus/values/id.hpp>
#include <utility>

#include "tensorbus/platform/export.hpp"

namespace tensorbus::bus {

// Escapes a topic name for use in a file name. Injective for names of up to 160 escaped bytes;
// longer names are cut, and end in a hash (docs/internals/protocol.md, section 1). Throws
// Error(kInvalidArgument) for an empty name or one of more than 2,048 bytes.
std::string escape_topic(std::string_view topic);

// Returns the hash of the text as 32 hex digits.
std::string hash_hex(std::string_view text);

// File names of a participant in the domain directory.
std::string socket_name(const Id& participant);
std::string temporary_socket_name(const Id& participant);
std::string marker_name(const std::string& escaped_topic, const Id& participant,
                        std::uint32_t publisher);

// Prefixes of the markers of nodes and of queues. No topic's file name contains '='.
inline constexpr std::string_view kNodeMarker = "node=";
inline constexpr std::string_view kQueueMarker = "queue=";

struct Marker {
  std::string_view escaped_topic;
  Id participant;
  std::uint32_t publisher = 0;

  bool is_topic() const noexcept { return escaped_topic.find('=') == std::string_view::npos; }
};
// The name of a publisher on its machine, from its participant and its number:
// "<32 hex digits>.<number>".
using PublisherName = std::pair<Id, std::uint32_t>;
TENSORBUS_API std::string to_string(const PublisherName& name);
// Returns an empty result for any other text.
TENSORBUS_API std::optional<PublisherName> parse_publisher_name(std::string_view text);

// Returns an empty result for a file that is not a marker.
std::optional<Marker> parse_marker(std::string_view file_name);
// Returns the participant to which a socket, a temporary socket or a marker belongs.
std::optional<Id> owner_of_file(std::string_view file_name);
bool is_socket_name(std::string_view file_name);

}  // namespace tensorbus::bus
