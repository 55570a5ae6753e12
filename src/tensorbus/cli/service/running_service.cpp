#include "tensorbus/cli/service/running_service.hpp"

#include <chrono>
#include <exception>
#include <tensorbus/values/outcome.hpp>
#include <utility>

namespace tensorbus::cli {
namespace {

constexpr std::chrono::milliseconds kStopCheck{100};

}  // namespace

RunningService::RunningService(const std::string& name, Service::Callback callback,
                               const Participant& participant)
    : service_(name, std::move(callback), participant), thread_([this] { serve(); }) {}

void RunningService::stop() {
  stops_ = true;
  if (thread_.joinable()) thread_.join();
}

void RunningService::serve() {
  Outcome outcome = Outcome::kDone;
  while (!stops_ && outcome != Outcome::kClosed) try {
      outcome = service_.serve(kStopCheck, [this] { return stops_.load(); });
    } catch (const std::exception&) {  // no memory for a request: it is tried again
      std::this_thread::sleep_for(kStopCheck);
    }
}

}  // namespace tensorbus::cli
