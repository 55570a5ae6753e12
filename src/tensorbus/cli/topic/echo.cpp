#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/cli/commands.hpp"
#include "tensorbus/cli/json.hpp"
#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/texts.hpp"
#include "tensorbus/cli/topic/image.hpp"
#include "tensorbus/cli/topic/monitor.hpp"
#include "tensorbus/cli/topic/samples.hpp"
#include "tensorbus/cli/values/message.hpp"
#include "tensorbus/cli/values/value_text.hpp"

namespace tensorbus::cli {
namespace {

struct EchoOptions : MonitorOptions {
  bool once = false;
  std::string field;
  std::optional<bool> image;  // by default on a terminal
  bool csv = false;
  void add_to(CLI::App& command) {
    add_monitor_to(command);
    command.add_flag("--once", once, "The same as --count 1.");
    command.add_option("--field", field, "Only this field, as in pose.position or poses.0.")
        ->option_text("TEXT");
    command.add_flag("--image,!--no-image", image, "Draw images; by default on a terminal.");
    command.add_flag("--csv", csv, "Print CSV.");
  }
};

// Prints each sample in one of the forms.
class Echo {
 public:
  Echo(const EchoOptions& options, Monitor& monitor) : options_(options), monitor_(monitor) {}

  void show(const Sample& sample) {
    const Message whole(sample);
    const auto part = options_.field.empty() ? std::optional(whole) : whole.at(options_.field);
    if (!part)
      throw Exit(kFailed, "a sample of " + shown(text_literal(options_.topic)) + " has no field " +
                              shown(text_literal(options_.field)));
    if (options_.json)
      show_json(sample, *part);
    else if (options_.csv)
      show_csv(sample, *part);
    else
      show_text(sample, *part);
    flush();
  }

 private:
  void show_json(const Sample& sample, const Message& message) {
    const SampleHeader header = sample.header();
    Record("sample")
        .field("topic", header.topic)
        .field("sequence", header.sequence)
        .field("timestamp_ns", header.timestamp_ns)
        .field("publisher", publisher_name(header))
        .field("machine", monitor_.machine_of(sample))
        .json("data", message.json())
        .add();
  }
  // A line for each sample, with the columns of the first one.
  void show_csv(const Sample& sample, const Message& message) {
    std::map<std::string, std::string> cells;
    std::vector<std::string> order;
    for (auto& [path, text] : message.cells(options_.field)) {
      const auto [place, is_new] = cells.insert_or_assign(path, std::move(text));
      if (is_new) order.push_back(path);
    }
    if (columns_.empty()) {
      columns_ = std::move(order);
      std::vector<std::string> titles{"sequence", "timestamp_ns"};
      titles.insert(titles.end(), columns_.begin(), columns_.end());
      print_csv(titles);
    }
    const SampleHeader header = sample.header();
    std::vector<std::string> row{std::to_string(header.sequence),
                                 std::to_string(header.timestamp_ns)};
    for (const std::string& column : columns_) {
      const auto cell = cells.find(column);
      row.push_back(cell == cells.end() ? "" : cell->second);
    }
    print_csv(row);
  }
  void show_text(const Sample& sample, const Message& message) {
    const SampleHeader header = sample.header();
    const std::string machine = monitor_.machine_of(sample);
    print(shown(header.topic) + " #" + std::to_string(header.sequence) +
          (header.origin ? " from " + shown(machine) : "") + ", " + age_text(age_of(header)) +
          " old\n");
    for (const std::string& line : message.lines()) print(line + '\n');
    if (options_.image.value_or(::isatty(STDOUT_FILENO) != 0)) draw(message);
    print("---\n");
  }
  void draw(const Message& message) {
    const auto fields = message.fields();
    if (!fields) {
      if (message.tensor() != nullptr) print(drawn(*message.tensor(), "", columns_of_image()));
      return;
    }
    std::string encoding;
    for (const auto& [name, value] : *fields)
      if (name == "encoding" && value.value().is<std::string>())
        encoding = value.value().as<std::string>();
    for (const auto& [name, value] : *fields)
      if (value.tensor() != nullptr) print(drawn(*value.tensor(), encoding, columns_of_image()));
  }
  std::size_t columns_of_image() const {
    constexpr std::size_t kMost = 80;
    winsize size{};
    if (options_.image || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
      return kMost;
    return std::min<std::size_t>(size.ws_col, kMost);
  }
  // Control characters of another process do not reach a terminal.
  static void print_csv(const std::vector<std::string>& cells) {
    static const bool is_terminal = ::isatty(STDOUT_FILENO) != 0;
    std::string line;
    for (const std::string& cell : cells) {
      const std::string text = is_terminal ? shown(cell) : cell;
      line += &cell == cells.data() ? "" : ",";
      if (text.find_first_of(",\"\r\n") == std::string::npos) {
        line += text;
        continue;
      }
      line += '"';
      for (const char character : text)
        line += character == '"' ? "\"\"" : std::string(1, character);
      line += '"';
    }
    print(line + '\n');
  }

  const EchoOptions& options_;
  Monitor& monitor_;
  std::vector<std::string> columns_;  // of CSV
};

void echo(EchoOptions& options) {
  if (options.csv && options.json)
    throw CLI::ValidationError("--csv", "--csv and --json exclude each other");
  if (options.once && options.count.value_or(1) != 1)
    throw CLI::ValidationError("--once", "--once and --count exclude each other");
  if (options.once) options.count = 1;
  Monitor monitor(options, 1);
  Echo shows(options, monitor);
  for (std::uint64_t received = 0; !options.count || received < *options.count; ++received) {
    const auto sample = monitor.subscriber().receive(timeout_of(options.timeout));
    if (!sample) monitor.fail_for_silence();
    shows.show(*sample);
  }
}

}  // namespace

void add_echo(CLI::App& topic) {
  add_command(
      topic, "echo",
      "Print the samples of a topic; only the newest, if they come faster than they are printed."
      "\n\nNo publisher waits for this command. A tensor is shown by its dtype, shape, device, a "
      "few values, minimum, mean, maximum and the number of NaNs. With --json, each line is a "
      "sample.",
      "tensorbus topic echo camera/image --once --image\n"
      "tensorbus topic echo state --field pose.position --csv > positions.csv\n"
      "tensorbus topic echo state --json | jq .data.id",
      echo);
}

}  // namespace tensorbus::cli
