#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbus/bus/domain/advertisement.hpp"
#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/bus/queue_client/queue_request.hpp"

namespace tensorbus::bus {

// The addresses of queues as text, and the markers by which a domain knows their names.

bool is_queue_address(std::string_view text);
std::string to_text(const QueueAddress& address);
// Throws Error(kInvalidArgument) for other text.
QueueAddress parse_queue_address(std::string_view text);

// Returns the queues of this name, some of whose hosts may have died. Without their keys.
std::vector<QueueAddress> marked_queues(const Domain& domain, const std::string& name);
// Returns the first queue of this name whose host has not died.
std::optional<QueueAddress> find_queue(const Domain& domain, const std::string& name);

// Marks a queue that was made here. Returns the marker's name. Throws Error(kInvalidArgument) if
// there is another queue of this name, unless it is that of a service. `mirror` has the machine and
// the origin of a mirror.
std::string add_queue_marker(const Domain& domain, const std::string& name,
                             const QueueAddress& queue, Advertisement mirror = {});

}  // namespace tensorbus::bus
