#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <stdexcept>
#include <string>
#include <utility>

#include "tensorbus/cli/commands.hpp"
#include "tensorbus/cli/json.hpp"
#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/recording/player_service.hpp"
#include "tensorbus/cli/service/replies.hpp"
#include "tensorbus/cli/service/requests.hpp"
#include "tensorbus/cli/texts.hpp"

namespace tensorbus::cli {
namespace {

struct PlayerRequest {
  Asking asking;
  std::string name = kPlayerName;
  void add_name_to(CLI::App& command) {
    command.add_option("--name", name, "The --name of the player.  [default: player]")
        ->option_text("NAME");
    asking.timeout = 5;
    asking.add_to(command);
  }
};
struct PlainRequest : PlayerRequest {
  void add_to(CLI::App& command) { add_name_to(command); }
};
struct StepRequest : PlayerRequest {
  std::uint64_t count = 1;
  void add_to(CLI::App& command) {
    command.add_option("COUNT", count, "How many messages.  [default: 1; x>=1]")
        ->check(at_least_one());
    add_name_to(command);
  }
};
struct RateRequest : PlayerRequest {
  double rate = 1;
  void add_to(CLI::App& command) {
    command.add_option("RATE", rate, "Speed; 2: twice as fast as recorded.")->required();
    add_name_to(command);
  }
};

std::string local_time(std::uint64_t time_ns) {
  const auto seconds = static_cast<std::time_t>(time_ns / 1'000'000'000);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  std::array<char, 48> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local);
  (void)std::snprintf(text.data() + size, text.size() - size, ".%03u",
                      static_cast<unsigned>(time_ns / 1'000'000 % 1000));
  return text.data();
}

void request_and_print(PlayerRequest& options, Value::Map request) {
  const Value reply =
      ask({"tensorbus play", "position_ns", options.name}, options.asking, std::move(request));
  const auto stats = stats_in<PlayerStats>(reply);
  if (options.asking.json)
    return Record("player").field("file", file_in(reply)).fields(stats).print();
  std::array<char, 32> rate{};
  (void)std::snprintf(rate.data(), rate.size(), ", rate %g", stats.rate);
  std::array<char, 48> late{};
  (void)std::snprintf(late.data(), late.size(), "%.3f ms at most",
                      static_cast<double>(stats.latest_ns) / 1e6);
  print_pair("file", file_in(reply));
  print_pair("state", std::string(stats.ended    ? "ended"
                                  : stats.paused ? "paused"
                                                 : "playing") +
                          rate.data());
  print_pair("time", local_time(stats.position_ns));
  print_pair("messages", std::to_string(stats.messages) + " published, " +
                             std::to_string(stats.left) + " left");
  print_pair("late", late.data());
}

void show_player(PlainRequest& options) { request_and_print(options, {{"do", "status"}}); }
void pause(PlainRequest& options) { request_and_print(options, {{"do", "pause"}}); }
void resume(PlainRequest& options) { request_and_print(options, {{"do", "resume"}}); }
void step(StepRequest& options) {
  request_and_print(options, {{"do", "step"}, {"count", options.count}});
}
void set_rate(RateRequest& options) {
  request_and_print(options, {{"do", "rate"}, {"rate", options.rate}});
}

// Returns the number of messages of a request to step.
std::uint64_t count_in(const Value& request) {
  const Value* const count = request.find("count");
  if (count == nullptr) return 1;
  if (count->is<std::int64_t>() && count->as<std::int64_t>() > 0)
    return static_cast<std::uint64_t>(count->as<std::int64_t>());
  throw std::invalid_argument("expected a count of at least 1");
}

double rate_in(const Value& request) {
  const Value* const rate = request.find("rate");
  double number = 0;
  if (rate != nullptr && rate->is<double>()) number = rate->as<double>();
  if (rate != nullptr && rate->is<std::int64_t>())
    number = static_cast<double>(rate->as<std::int64_t>());
  if (number > 0 && std::isfinite(number)) return number;
  throw std::invalid_argument("expected a rate above 0");
}

}  // namespace

PlayerService::PlayerService(const std::string& name, Player& player, std::string file,
                             const Participant& participant)
    : player_(player),
      file_(std::move(file)),
      node_(name, participant),
      service_(name, [this](const Content& request) { return reply_to(request); }, participant) {}

Content PlayerService::reply_to(const Content& request) {
  const Value* const what = request.fields.find("do");
  const auto is = [&](const char* name) { return what != nullptr && *what == Value(name); };
  if (is("pause"))
    player_.pause();
  else if (is("resume"))
    player_.resume();
  else if (is("step"))
    player_.step(count_in(request.fields));
  else if (is("rate"))
    player_.set_rate(rate_in(request.fields));
  else if (!is("status"))
    throw std::invalid_argument(
        "expected {'do': one of 'status', 'pause', 'resume', 'step', 'rate'}");
  return {reply_of(file_, player_.stats())};
}

void add_player(CLI::App& all) {
  CLI::App& group = *all.add_subcommand("player", "Control a running `tensorbus play`.");
  group.require_subcommand(1);
  add_command(group, "status", "Show the player's position and its largest delay.",
              "tensorbus player status --json", show_player);
  add_command(group, "pause", "Pause before the next message.", "tensorbus player pause", pause);
  add_command(group, "resume", "Continue to play.", "tensorbus player resume", resume);
  add_command(group, "step", "Pause, and publish the next messages at once.",
              "tensorbus player step 10", step);
  add_command(group, "rate", "Play faster or slower.", "tensorbus player rate 0.5", set_rate);
}

}  // namespace tensorbus::cli
