#pragma once

#include <chrono>

#include "tensorbus/bus/event_loop/event_loop.hpp"
#include "tensorbus/bus/event_loop/peer_log.hpp"
#include "tensorbus/bus/participant/publishers.hpp"

namespace tensorbus::bus {

// Logs the samples that a participant's publishers drop, at most every 10 seconds. On the event
// loop only, except on_drops().
class DropLog {
 public:
  DropLog(EventLoop& loop, PeerLog& log, const Publishers& publishers)
      : loop_(loop), log_(log), publishers_(publishers) {}
  DropLog(const DropLog&) = delete;
  DropLog& operator=(const DropLog&) = delete;

  // Called when a publisher has dropped a sample (Sender::on_drops()). Any thread.
  void on_drops();

 private:
  void look();
  void write(const Sender& publisher, const Sender::Dropped& dropped);

  EventLoop& loop_;
  PeerLog& log_;
  const Publishers& publishers_;
  std::chrono::steady_clock::time_point logged_until_{};
  EventLoop::Task& looking_ = loop_.add_task([this] { look(); });
};

}  // namespace tensorbus::bus
