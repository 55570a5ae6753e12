#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbus/bus/domain/advertisement.hpp"
#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/bus/queue_client/queue_request.hpp"

namespace tensorbus::bus {

// Addresses of queues as text, and the markers of named queues in a domain.

bool is_queue_address(std::string_view text);
std::string to_text(const QueueAddress& address);
// Throws Error(kInvalidArgument) for any other text.
QueueAddress parse_queue_address(std::string_view text);

// Returns the queues of this name, without their keys. Their servers may have died.
std::vector<QueueAddress> marked_queues(const Domain& domain, const std::string& name);
// Returns the first queue of this name whose server has not died, but not `ended`.
std::optional<QueueAddress> find_queue(const Domain& domain, const std::string& name,
                                       const std::optional<QueueAddress>& ended = {});

// Adds the marker of a queue of this process and returns the marker's name. Throws
// Error(kInvalidArgument) if another queue has this name, unless it is the queue of a service.
// `mirror` contains the machine and the origin of a mirror.
std::string add_queue_marker(const Domain& domain, const std::string& name,
                             const QueueAddress& queue, Advertisement mirror = {});

}  // namespace tensorbus::bus
