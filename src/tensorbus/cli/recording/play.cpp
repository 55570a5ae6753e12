#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tensorbus/recording.hpp>
#include <vector>

#include "tensorbus/cli/caught_signals.hpp"
#include "tensorbus/cli/commands.hpp"
#include "tensorbus/cli/help.hpp"
#include "tensorbus/cli/json.hpp"
#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/recording/opened.hpp"
#include "tensorbus/cli/recording/player_service.hpp"
#include "tensorbus/cli/recording/terminal_keys.hpp"
#include "tensorbus/cli/texts.hpp"

namespace tensorbus::cli {
namespace {

using std::chrono::steady_clock;

constexpr const char* kKeys = "; space pauses, Enter steps, + and - change the rate, q ends it";
const double kFaster = std::sqrt(2.0);
// Between two looks at whether playing has ended by itself.
constexpr std::chrono::milliseconds kEndCheck{100};

struct PlayOptions {
  const CLI::App* parsed = nullptr;  // its extra words are the file and the topics
  std::vector<std::string> topics;
  double rate = 1;
  bool loop = false;
  double start = 0;
  std::optional<double> end;
  std::vector<std::string> remap;
  bool paused = false;
  double wait = 0;
  std::optional<std::string> clock;
  std::string device;
  std::string name = kPlayerName;
  std::string domain;
  bool json = false;

  void add_to(CLI::App& command);
};

void PlayOptions::add_to(CLI::App& command) {
  command.allow_extras();  // CLI11 would take "[a,b]" in a list of its own for two names
  parsed = &command;
  command.add_option("--topics", topics, "Names of recorded topics, as an option.")
      ->option_text("TOPIC")
      ->allow_extra_args(false);
  command.add_option("--rate", rate, "Speed; 2: twice as fast as recorded.  [default: 1.0]")
      ->option_text("FLOAT");
  command.add_flag("--loop", loop, "Start again after the last message.");
  command
      .add_option("--start", start,
                  "Start this many seconds after the first message.  [default: 0.0; x>=0]")
      ->option_text("FLOAT")
      ->check(seconds_from(0));
  command
      .add_option("--end", end,
                  "End this many seconds after the first message; by default at the last.  [x>=0]")
      ->option_text("FLOAT")
      ->check(seconds_from(0));
  command.add_option("--remap", remap, "Another name for a topic.")
      ->option_text("OLD:=NEW")
      ->allow_extra_args(false);
  command.add_flag("--paused,--step", paused,
                   "Start paused; wait for a key or `tensorbus player`.");
  command
      .add_option("--wait", wait, "Wait at most this long for a subscriber of each topic.  [x>=0]")
      ->option_text("S")
      ->check(seconds_from(0));
  command.add_option("--clock", clock, "Publish the time in the recording on this topic.")
      ->option_text("TOPIC");
  command.add_option("--device", device, "Copy tensors that were on a GPU to this GPU.")
      ->option_text("cuda:N");
  command.add_option("--name", name, "The name for `tensorbus player`.  [default: player]")
      ->option_text("NAME");
  add_domain(command, domain);
  add_json(command, json);
}

// Returns the GPU; nothing for main memory.
std::optional<Device> device_in(const std::string& text) {
  if (text.empty() || text == "cpu") return std::nullopt;
  const std::string_view number =
      std::string_view(text).substr(std::min<std::size_t>(5, text.size()));
  int ordinal = 0;
  if (text == "cuda") return Device::cuda();
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), ordinal);
  if (!text.starts_with("cuda:") || error != std::errc() || end != number.data() + number.size() ||
      ordinal < 0)
    throw CLI::ValidationError("--device", "'" + text + "': expected cuda:0, cuda:1, ...");
  return Device::cuda(ordinal);
}

std::map<std::string, std::string> remap_in(const std::vector<std::string>& texts) {
  std::map<std::string, std::string> names;
  for (const std::string& text : texts) {
    const std::size_t sign = text.find(":=");
    if (sign == std::string::npos || sign == 0 || sign + 2 == text.size())
      throw CLI::ValidationError("--remap", "'" + text + "': expected OLD:=NEW");
    names[text.substr(0, sign)] = text.substr(sign + 2);
  }
  return names;
}

PlayerOptions player_options(const PlayOptions& options, const Recording& recording) {
  if (!(options.rate > 0 && options.rate <= std::numeric_limits<double>::max()))
    throw CLI::ValidationError("--rate", "expected a number above 0");
  if (options.clock && options.clock->empty())
    throw CLI::ValidationError("--clock", "expected the name of a topic");
  const TimeSpan span = time_span(recording, options.start, options.end);
  return {.topics = {},
          .remap = remap_in(options.remap),
          .rate = options.rate,
          .loop = options.loop,
          .paused = true,
          .begin_ns = span.begin_ns,
          .end_ns = span.end_ns,
          .clock = options.clock.value_or(""),
          .device = device_in(options.device),
          .domain = options.domain};
}

// Plays until the end, a signal, or the key q.
class Playing {
 public:
  Playing(Player& player, const CaughtSignals& signals) : player_(player), signals_(signals) {}

  // Resumes the player when its topics have subscribers, or after `wait`.
  void begin(std::chrono::nanoseconds wait) {
    const auto end = steady_clock::now() + wait;
    while (!ended_) {
      const auto left = std::max(end - steady_clock::now(), steady_clock::duration::zero());
      const auto time = std::min<steady_clock::duration>(left, kEndCheck);
      if (player_.wait_for_subscribers(time) == Outcome::kDone || left <= time) break;
      handle(steady_clock::duration::zero());
    }
    handle(steady_clock::duration::zero());
    if (!ended_) player_.resume();
  }
  void run() {
    while (!ended_ && player_.wait(std::chrono::nanoseconds::zero()) == Outcome::kTimedOut)
      handle(kEndCheck);
  }

 private:
  // Handles a signal and the keys that were pressed.
  void handle(steady_clock::duration timeout) {
    const int terminal = keys_.begin();
    const int number = signals_.next(timeout, terminal);
    if (number == SIGTSTP) return keys_.stop();
    ended_ = ended_ || number != 0;
    if (terminal >= 0 && number == 0)
      for (const char key : keys_.pressed()) press(key);
  }
  void change_rate(double factor) {
    const double rate = player_.stats().rate * factor;
    if (rate > 0 && std::isfinite(rate)) player_.set_rate(rate);
  }
  void press(char key) {
    if (key == ' ')
      player_.stats().paused ? player_.resume() : player_.pause();
    else if (key == '\r' || key == '\n')
      player_.step();
    else if (key == '+' || key == '-')
      change_rate(key == '+' ? kFaster : 1 / kFaster);
    else if (key == 'q')
      ended_ = true;
  }

  Player& player_;
  const CaughtSignals& signals_;
  TerminalKeys keys_;
  bool ended_ = false;
};

// Prints what was published. Throws Exit if messages were left out, and the error of playing.
void report(Player& player, const std::string& file, bool json) {
  const PlayerStats stats = player.stats();
  if (json) {
    Record("player").field("file", file).fields(stats).add();
  } else {
    char late[48];
    std::snprintf(late, sizeof late, "%.3f ms late", static_cast<double>(stats.latest_ns) / 1e6);
    print(std::to_string(stats.messages) + " messages, at most " + late + ": " + shown(file) +
          '\n');
  }
  flush();
  player.close();
  if (stats.unreadable != 0)
    throw Exit(kFailed,
               std::to_string(stats.unreadable) + " messages were left out: " + shown(stats.error));
}

void play(PlayOptions& options) {
  std::vector<std::string> words = words_of(*options.parsed);
  if (words.empty()) throw CLI::RequiredError("FILE");
  const std::string file = words.front();
  words.erase(words.begin());
  words.insert(words.end(), options.topics.begin(), options.topics.end());
  // Tensors of a GPU are then lent from the file, in main memory.
  if (!device_in(options.device)) ::setenv("TENSORBUS_CUDA_DRIVER", "off", 1);
  const Recording recording = opened(file);
  require_topics(file, recording, words);
  PlayerOptions given = player_options(options, recording);
  given.topics = std::move(words);
  std::vector<int> more;
  if (has_action(SIGTSTP, SIG_DFL)) more.push_back(SIGTSTP);
  std::optional<CaughtSignals> signals(std::in_place, more);
  Player player(recording, given);
  {
    const PlayerService service(options.name, player, file, participant_of(options.domain));
    Playing playing(player, *signals);
    const bool has_keys = ::isatty(STDIN_FILENO) == 1;
    print_line("playing " + shown(file) + (has_keys ? kKeys : ""));
    if (!options.paused) playing.begin(nanoseconds_in(options.wait));
    playing.run();
  }
  signals.reset();  // perhaps nobody reads what is printed
  report(player, file, options.json);
}

}  // namespace

void add_play(CLI::App& all) {
  CLI::App& command = add_command(
      all, "play",
      "Publish recorded messages with their types, histories and intervals. Nothing is copied.\n\n"
      "Keys on a terminal: space pauses and resumes, Enter publishes one message, + and - change "
      "the rate, q ends the command. `tensorbus player` controls it from another process.",
      "tensorbus play run.mcap\n"
      "tensorbus play run.mcap camera/image --rate 0.5 --start 10 --end 20 --loop\n"
      "tensorbus play run.mcap --remap camera/image:=replayed/image --clock clock\n"
      "tensorbus play run.mcap --paused     and, elsewhere: tensorbus player step",
      play);
  command.formatter(std::make_shared<Help>(" FILE [TOPIC]..."));
}

}  // namespace tensorbus::cli
