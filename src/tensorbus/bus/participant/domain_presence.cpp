#include "tensorbus/bus/participant/domain_presence.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {
namespace {

using namespace std::chrono_literals;

constexpr auto kKeepDelay = 1s;    // a file of this participant was removed: more may follow
constexpr auto kKeepAgain = 20ms;  // after each of the first failures
constexpr int kQuietFailures = 10;
constexpr auto kPollInterval = 100ms;  // without an inotify instance

}  // namespace

DomainPresence::SocketFile::SocketFile(const Domain& in, const Id& self)
    : domain(in), name(socket_name(self)) {}

DomainPresence::DomainPresence(EventLoop& loop, const Domain& domain, const Id& self,
                               EventLoop::Task& scanning, OnConnection on_connection)
    : loop_(loop),
      domain_(domain),
      self_(self),
      scanning_(scanning),
      keeping_(loop.add_task([this] { keep(); })),
      on_connection_(std::move(on_connection)),
      socket_(domain, self),
      listener_(domain.listen(self)),
      socket_inode_(domain.inode_of(socket_.name)),
      watched_place_(domain.moves()),
      watch_(domain.watch_place()) {
  listener_tag_ = loop_.watch(listener_.get(), [this] { on_connection_(listener_); });
  watch();
  (void)domain_.try_lock();
  loop_.schedule(keeping_);  // for files removed before the watch
}

void DomainPresence::watch() {
  if (watch_.fd() >= 0) {
    watch_tag_ = loop_.watch(watch_.fd(), [this] { on_change(); });
  } else {
    loop_.schedule(scanning_, kPollInterval);
    loop_.schedule(keeping_, kKeepDelay);
  }
}

void DomainPresence::on_change() {
  const platform::DirectoryWatch::Changes changes = watch_.take_changes();
  if (changes.some) loop_.schedule(scanning_);
  const bool ours = std::ranges::any_of(changes.gone, [this](const std::string& name) {
    return name == socket_.name || domain_.has_marked(name);
  });
  if (ours || changes.place) loop_.schedule(keeping_);
}

// Makes files again that another process removed. Not called after the participant's end: the event
// loop stops first. The Domain records which markers this process itself has removed.
void DomainPresence::keep() {
  try {
    (void)domain_.follow(self_);
    const std::uint64_t place = domain_.moves();
    bool some = place != watched_place_ || !domain_.try_lock();
    if (place != watched_place_) {
      platform::DirectoryWatch fresh = domain_.watch_place();
      if (watch_.fd() >= 0) loop_.unwatch(watch_tag_, watch_.fd());
      watch_ = std::move(fresh);
      watched_place_ = place;
      watch();
      loop_.schedule(scanning_);
    }
    const ino_t socket = domain_.inode_of(socket_.name);
    if (socket == 0 || socket != socket_inode_) {  // both are 0 if it was removed during listen()
      some = true;
      listen();
    }
    if (domain_.restore_markers() || some) loop_.schedule(keeping_, kKeepDelay);
    // Differs if the directory was removed again before listen().
    if (domain_.moves() != watched_place_) loop_.schedule(keeping_);
    failures_ = 0;
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) throw;
    // Another process may be removing the directory. A lasting failure is reported once.
    const bool goes_on = failures_ >= kQuietFailures;
    loop_.schedule(keeping_, goes_on ? kKeepDelay : kKeepAgain);
    if (failures_++ == kQuietFailures) throw;
  }
}

void DomainPresence::listen() {
  platform::Fd fresh = domain_.listen(self_);
  on_connection_(listener_);  // connections at the old listener
  const EventLoop::Tag tag = loop_.watch(fresh.get(), [this] { on_connection_(listener_); });
  loop_.unwatch(listener_tag_, listener_.get());
  listener_ = std::move(fresh);
  listener_tag_ = tag;
  socket_inode_ = domain_.inode_of(socket_.name);
}

}  // namespace tensorbus::bus
