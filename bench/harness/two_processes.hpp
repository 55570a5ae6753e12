#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "harness/cores.hpp"
#include "harness/shared_memory.hpp"
#include "harness/ticks.hpp"
#include "tensorbus/bus/participant/participant.hpp"

namespace bench {

// A word in a cache line of its own (in two, for the adjacent-line prefetcher).
struct alignas(128) Line {
  std::atomic<std::uint64_t> word{0};
};

// What sender and receiver share beside the bus.
struct Stage {
  Line acked;      // by the receiver: messages that it has done
  Line sent;       // for floors: by the sender
  Line answered;   // for floors: by the receiver
  Line sent_at;    // in ticks: by the sender
  Line sender_at;  // how often each came to meet()
  Line receiver_at;
};

enum class Role { kSender, kReceiver };

// The two ends of a benchmark. Both run the same rows in the same order and meet at meet().
class TwoProcesses {
 public:
  // Forks; returns in both processes, each on its own core and without any thread.
  TwoProcesses() : directory_(make_directory()) {
    ns_per_tick();
    const CorePair cores = core_pair();
    ::signal(SIGCHLD, [](int) { child_ended(); });
    child_ = ::fork();
    if (child_ < 0) die("fork");
    role_ = child_ == 0 ? Role::kReceiver : Role::kSender;
    if (child_ == 0) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin_to(role_ == Role::kSender ? cores.sender : cores.receiver);
  }
  // Call it last: the participants must be gone.
  ~TwoProcesses() {
    ::signal(SIGCHLD, SIG_DFL);  // from here on the receiver may end
    meet();
    if (role_ == Role::kReceiver) std::exit(0);  // a peer may have something to take leave of
    ::waitpid(child_, nullptr, 0);
    std::filesystem::remove_all(directory_);
  }
  TwoProcesses(const TwoProcesses&) = delete;
  TwoProcesses& operator=(const TwoProcesses&) = delete;

  bool is_sender() const noexcept { return role_ == Role::kSender; }
  Stage& stage() const noexcept { return *stage_; }
  // A domain that nobody else uses.
  tensorbus::ParticipantOptions participant_options() const { return {.domain = directory_}; }

  // Waits until the other one is here too.
  void meet() {
    auto& mine = is_sender() ? stage_->sender_at.word : stage_->receiver_at.word;
    const auto& other = is_sender() ? stage_->receiver_at.word : stage_->sender_at.word;
    mine.store(++meetings_, std::memory_order_release);
    while (other.load(std::memory_order_acquire) < meetings_) ::usleep(100);
  }

  // The receiver has done `message` and gave everything back.
  void ack(std::uint64_t message) noexcept {
    stage_->acked.word.store(message, std::memory_order_release);
  }
  void wait_for_ack(std::uint64_t message) const noexcept {
    while (stage_->acked.word.load(std::memory_order_acquire) != message) relax();
  }

 private:
  static std::string make_directory() {
    std::string path = "/tmp/tensorbus-bench-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) die("mkdtemp");
    return path;
  }
  // Nobody would ever meet us: end, loudly.
  static void child_ended() noexcept {
    constexpr char kWhat[] = "the receiver died\n";
    [[maybe_unused]] const auto written = ::write(2, kWhat, sizeof kWhat - 1);
    ::_exit(1);
  }

  std::string directory_;
  Shared<Stage> stage_;
  Role role_ = Role::kSender;
  pid_t child_ = -1;
  std::uint64_t meetings_ = 0;
};

}  // namespace bench
