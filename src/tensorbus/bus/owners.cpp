#include "tensorbus/bus/owners.hpp"

#include <utility>

namespace tensorbus::bus {
namespace {

using namespace std::chrono_literals;

constexpr auto kRetryDelay = 20ms;  // a backlog was full
constexpr int kLooksAtTheDead = 10;

}  // namespace

Owners::Owners(Surroundings& surroundings, const Domain& domain, Service::Errand& look_again,
               OnLost on_lost)
    : surroundings_(surroundings),
      domain_(domain),
      look_again_(look_again),
      clearing_up_(surroundings.service.add_errand([this] { clear_up(); })),
      on_lost_(std::move(on_lost)) {}

Owners::Found Owners::find_or_connect(const Id& owner) {
  const auto found = owners_.find(owner);
  if (found != owners_.end()) return {found->second.connection.get()};
  surroundings_.peers->require_descriptors(2);
  try {
    platform::Connection connection = domain_.connect(owner);
    if (connection.outcome == platform::Connect::kDone)
      return {adopt(owner, std::move(connection.socket))};
    if (connection.outcome == platform::Connect::kDead) {
      domain_.remove_files_of(owner);
      return {nullptr, true};
    }
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) throw;
    // The socket is another user's: as with a full backlog, try again.
  }
  surroundings_.service.ask(look_again_, kRetryDelay);
  return {};
}

BorrowerConnection* Owners::adopt(const Id& owner, platform::Fd socket) {
  auto made = std::make_shared<BorrowerConnection>(
      surroundings_, owner, std::move(socket),
      [this](BorrowerConnection& gone, const std::string& why) { forget(gone, why); },
      [this, owner](const std::shared_ptr<SubscriberCore>& subscriber, std::uint32_t publisher) {
        on_lost_(subscriber, owner, publisher);
      });
  return owners_.emplace(owner, Owner{std::move(made)}).first->second.connection.get();
}

void Owners::reach(const Id& owner, const Surroundings::OnReached& on_reached) {
  const Found found = find_or_connect(owner);
  if (found.connection != nullptr) return on_reached(found.connection->exchange());
  if (found.dead) return on_reached(nullptr);
  surroundings_.service.post_later(kRetryDelay,
                                   [this, owner, on_reached] { reach(owner, on_reached); });
}

// Of one that is dead, we may not have heard the end of the connection yet.
std::vector<std::shared_ptr<link::Connected>> Owners::estate_of(const Id& owner) {
  std::vector<std::shared_ptr<link::Connected>> left;
  const auto [begin, end] = estates_.equal_range(owner);
  for (auto at = begin; at != end; ++at)
    if (auto connected = at->second.lock()) left.push_back(std::move(connected));
  if (const auto found = owners_.find(owner); found != owners_.end())
    left.push_back(found->second.connection->exchange()->connected());
  return left;
}

void Owners::inherit(const Id& owner, const std::shared_ptr<link::Connected>& left) {
  std::erase_if(estates_, [&](const auto& item) {
    const auto known = item.second.lock();
    return !known || known == left;
  });
  estates_.emplace(owner, left);
}

void Owners::forget(BorrowerConnection& connection, const std::string& why) {
  connection.end(why);
  inherit(connection.owner(), connection.exchange()->connected());
  // Nobody finds it any more, but it is the one that calls us: it goes when the errand is done.
  auto node = owners_.extract(connection.owner());
  node.mapped().looks = connection.turned_away() ? 1 : kLooksAtTheDead;
  departed_.insert(std::move(node));
  surroundings_.service.ask(clearing_up_);
}

// Removes the files of owners that hung up, if they are dead. One that broke the protocol but lives
// keeps them; and the listener of one that is being killed may close after its connections, so we
// look more than once.
void Owners::clear_up() {
  surroundings_.service.ask(look_again_);
  for (auto& [id, owner] : departed_) owner.connection.reset();
  for (auto at = departed_.begin(); at != departed_.end();) {
    const bool dead = domain_.is_dead(at->first);
    if (dead) domain_.remove_files_of(at->first);
    const auto looked_at = at++;
    if (dead || --looked_at->second.looks <= 0) departed_.erase(looked_at);
  }
  if (!departed_.empty()) surroundings_.service.ask(clearing_up_, kRetryDelay);
}

void Owners::drop_idle() {
  std::erase_if(owners_, [](const auto& item) { return item.second.connection->idle(); });
}

void Owners::tell_retired(std::uint32_t segment) {
  for (const auto& [id, owner] : owners_) owner.connection->tell_retired(segment);
}

void Owners::end() {
  for (const auto& [id, owner] : owners_) owner.connection->end("");
}

}  // namespace tensorbus::bus
