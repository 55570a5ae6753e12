// What a participant has in the domain directory, and keeps there.
#include <algorithm>
#include <chrono>
#include <utility>

#include "tensorbus/bus/participant/participant_core.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {
namespace {

using namespace std::chrono_literals;

constexpr auto kKeepDelay = 1s;    // something of ours was removed: more may be, just now
constexpr auto kKeepAgain = 20ms;  // it failed, for the first few times
constexpr int kQuietFailures = 10;
constexpr auto kPollInterval = 100ms;  // without an inotify instance

}  // namespace

void ParticipantCore::watch_domain() {
  if (watch_.fd() >= 0) {
    watch_tag_ = loop_.watch(watch_.fd(), [this] { on_directory_change(); });
  } else {
    loop_.schedule(scanning_, kPollInterval);
    loop_.schedule(keeping_files_, kKeepDelay);
  }
}

void ParticipantCore::on_directory_change() {
  const platform::DirectoryWatch::Changes changes = watch_.take_changes();
  if (changes.some) loop_.schedule(scanning_);
  const bool ours = std::ranges::any_of(changes.gone, [this](const std::string& name) {
    return name == socket_file_.name || domain_.has_marked(name);
  });
  if (ours || changes.place) loop_.schedule(keeping_files_);
}

// Cleaners, and people, remove files, directories and all: what is ours is made again, where the
// path leads now. Never after the end: the service is stopped before anything is taken down, and
// the domain knows which markers were removed by us.
void ParticipantCore::keep_files() {
  try {
    (void)domain_.follow(id());
    const std::uint64_t place = domain_.moves();
    bool some = place != watched_place_ || !domain_.try_lock();
    if (place != watched_place_) {
      platform::DirectoryWatch watch = domain_.watch_place();
      if (watch_.fd() >= 0) loop_.unwatch(watch_tag_, watch_.fd());
      watch_ = std::move(watch);
      watched_place_ = place;
      watch_domain();
      loop_.schedule(scanning_);
    }
    const ino_t socket = domain_.inode_of(socket_file_.name);
    if (socket == 0 || socket != socket_inode_) {  // 0 is ours, too, if it went while we listened
      some = true;
      listen();
    }
    if (domain_.restore_markers() || some) loop_.schedule(keeping_files_, kKeepDelay);
    // It was removed once more, before we listened there.
    if (domain_.moves() != watched_place_) loop_.schedule(keeping_files_);
    failures_ = 0;
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) throw;
    // Somebody may be about to remove it all. What goes on is told, once.
    const bool goes_on = failures_ >= kQuietFailures;
    loop_.schedule(keeping_files_, goes_on ? kKeepDelay : kKeepAgain);
    if (failures_++ == kQuietFailures) throw;
  }
}

void ParticipantCore::listen() {
  platform::Fd fresh = domain_.listen(id());
  on_connection();  // those who came by the old one
  const EventLoop::Tag tag = loop_.watch(fresh.get(), [this] { on_connection(); });
  loop_.unwatch(listener_tag_, listener_.get());
  listener_ = std::move(fresh);
  listener_tag_ = tag;
  socket_inode_ = domain_.inode_of(socket_file_.name);
}

}  // namespace tensorbus::bus
