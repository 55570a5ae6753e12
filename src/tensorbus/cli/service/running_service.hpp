#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <tensorbus/content.hpp>
#include <tensorbus/participant.hpp>
#include <tensorbus/service.hpp>
#include <thread>

namespace tensorbus::cli {

// A service with a thread, by which other commands ask a command that runs.
class RunningService {
 public:
  // `callback` is called in the thread; what it refers to must live longer. Throws like Service.
  RunningService(const std::string& name, Service::Callback callback,
                 const Participant& participant);
  RunningService(const RunningService&) = delete;
  RunningService& operator=(const RunningService&) = delete;
  ~RunningService() { stop(); }

  // Replies to the request that is being handled, and ends. A second call does nothing.
  void stop();
  // Whether stop() was called; the callback should end soon.
  bool stops() const { return stops_; }

 private:
  void serve();

  Service service_;
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

}  // namespace tensorbus::cli
