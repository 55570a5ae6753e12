#include "tensorbus/bus/queue_client/queue_markers.hpp"

#include <unistd.h>

#include <charconv>
#include <fstream>
#include <random>
#include <thread>
#include <utility>

#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/session/queue_requests.hpp"
#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::string_view kPrefix = "tensorbus-queue:";
// Returns the escaped name in the marker of a queue.
std::string escaped_name(const std::string& name) {
  return std::string(kQueueMarker) + escape_topic(name);
}

bool is_of_service(const std::string& name) { return name.starts_with(kServiceQueue); }

std::string process_text(const Domain& domain, const std::string& marker) {
  const auto found = decode_advertisement(domain.read_marker(marker, kMaxMarkerBytes));
  if (!found || found->pid == 0) return "another process";
  std::string name;
  std::getline(std::ifstream("/proc/" + std::to_string(found->pid) + "/comm"), name);
  return "process " + std::to_string(found->pid) + (name.empty() ? "" : " (" + name + ")");
}

// Throws Error(kInvalidArgument) if a queue other than that of the marker `own` has this name.
void require_only(const Domain& domain, const std::string& name, const std::string& own) {
  const std::string escaped = escaped_name(name);
  const auto self = owner_of_file(own);
  for (const std::string& file : domain.list()) {
    const auto marker = parse_marker(file);
    if (file == own || !marker || marker->escaped_topic != escaped ||
        domain.is_dead(marker->participant))
      continue;
    std::string why = "queue \"" + name + "\" already exists, made by ";
    why += marker->participant == self ? "this process (" + std::to_string(::getpid()) + ")"
                                       : process_text(domain, file);
    why += ": open it with Queue.open(\"" + name + "\"), or choose another name";
    throw Error(Code::kInvalidArgument, why);
  }
}

// Marks the only queue of a name. If two processes do this at once, each sees the other's marker:
// both remove their own marker, and try again at different times.
void add_only_marker(const Domain& domain, const std::string& name, const std::string& marker,
                     const std::string& content) {
  constexpr int kAttempts = 20;
  std::minstd_rand random(static_cast<unsigned>(::getpid()) ^
                          static_cast<unsigned>(platform::wall_clock_ns()));
  for (int attempt = 1;; ++attempt) {
    require_only(domain, name, marker);
    domain.add_marker(marker, content);
    try {
      return require_only(domain, name, marker);
    } catch (const Error&) {
      domain.remove_file(marker);
      if (attempt == kAttempts) throw;
    } catch (...) {
      domain.remove_file(marker);
      throw;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % (1000U * attempt)));
  }
}

}  // namespace

bool is_queue_address(std::string_view text) { return text.starts_with(kPrefix); }

std::string to_text(const QueueAddress& address) {
  const auto hex = [](std::uint64_t value) {
    char digits[16];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), value, 16).ptr;
    return std::string(std::begin(digits), end);
  };
  return std::string(kPrefix) + address.server.hex() + ":" + hex(address.queue.number) + ":" +
         hex(address.queue.key);
}

QueueAddress parse_queue_address(std::string_view text) {
  QueueAddress address;
  const auto refuse = [] {
    throw Error(Code::kInvalidArgument, "invalid queue address: it is truncated or changed");
  };
  if (!text.starts_with(kPrefix)) refuse();
  std::string_view rest = text.substr(kPrefix.size());
  const auto server = Id::parse(rest.substr(0, 32));
  if (!server || rest.size() < 33 || rest[32] != ':') refuse();
  address.server = *server;
  rest.remove_prefix(33);
  for (std::uint64_t* number : {&address.queue.number, &address.queue.key}) {
    const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), *number, 16);
    if (parsed.ec != std::errc()) refuse();
    rest.remove_prefix(static_cast<std::size_t>(parsed.ptr - rest.data()));
    if (number == &address.queue.number && !rest.empty() && rest[0] == ':') rest.remove_prefix(1);
  }
  if (!rest.empty()) refuse();
  return address;
}

std::vector<QueueAddress> marked_queues(const Domain& domain, const std::string& name) {
  const std::string escaped = escaped_name(name);
  std::vector<QueueAddress> all;
  for (const std::string& file : domain.list()) {
    const auto marker = parse_marker(file);
    if (marker && marker->escaped_topic == escaped)
      all.push_back({marker->participant, {marker->publisher, 0}});
  }
  return all;
}

std::optional<QueueAddress> find_queue(const Domain& domain, const std::string& name,
                                       const std::optional<QueueAddress>& ended) {
  for (const QueueAddress& queue : marked_queues(domain, name)) {
    const bool has_ended =
        ended && queue.server == ended->server && queue.queue.number == ended->queue.number;
    if (!has_ended && !domain.is_dead(queue.server)) return queue;
  }
  return std::nullopt;
}

std::string add_queue_marker(const Domain& domain, const std::string& name,
                             const QueueAddress& queue, Advertisement mirror) {
  const auto number = static_cast<std::uint32_t>(queue.queue.number);
  std::string marker = marker_name(escaped_name(name), queue.server, number);
  mirror.pid = static_cast<std::uint32_t>(::getpid());
  mirror.name = name;
  const std::string content = encode(mirror);
  if (is_of_service(name))
    domain.add_marker(marker, content);
  else
    add_only_marker(domain, name, marker, content);
  return marker;
}

}  // namespace tensorbus::bus
