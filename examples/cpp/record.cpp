// Records a topic, reads the file, and publishes what is in it once more.
//
//   record TOPIC FILE MESSAGES [zstd | lz4]     beside: publisher TOPIC, or any publisher in Python
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <tensorbus/tensorbus.hpp>

using namespace std::chrono_literals;

int main(int count, char** arguments) try {
  if (count < 4) {
    std::cerr << "usage: record TOPIC FILE MESSAGES [zstd | lz4]\n";
    return 2;
  }
  const std::string topic = arguments[1];
  const std::string file = arguments[2];
  const std::uint64_t wanted = std::strtoull(arguments[3], nullptr, 10);

  tensorbus::Recorder recorder({.path = file,
                                .topics = {topic},
                                .reliable = true,
                                .overwrite = true,
                                .compress = count > 4 ? arguments[4] : ""});
  while (recorder.stats().messages < wanted)
    if (recorder.wait(10ms) == tensorbus::Outcome::kDone) break;  // close() says why
  recorder.close();

  const tensorbus::Recording recording(file);
  for (const tensorbus::RecordedTopic& found : recording.topics())
    std::cout << found.name << ": " << found.messages << " messages, " << found.lost << " lost\n"
              << std::flush;

  tensorbus::Publisher again(topic + "/again", {.reliable = true});
  if (again.wait_for_subscribers(1, 60s) != tensorbus::Outcome::kDone) return 1;
  for (std::size_t i = 0; i < recording.size(); ++i)
    again.publish(recording[i].tensor().view());  // lends the file; a compressed one is copied
  return 0;
} catch (const tensorbus::Error& error) {
  std::cerr << "record: " << error.what() << "\n";
  return 1;
}
