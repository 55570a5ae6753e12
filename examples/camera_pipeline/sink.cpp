// The sink: takes the features without PyTorch or Python, and writes all of them to a file.
//
//   sink RESULTS FRAMES
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tensorbus/tensorbus.hpp>

namespace {

std::int64_t wall_clock_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

void receive_features(const std::filesystem::path& results, int frames) {
  std::ofstream features(results / "features.bin", std::ios::binary);
  std::ofstream arrivals(results / "sink.txt");
  tensorbus::Subscriber subscriber("model/features");
  for (int received = 0; received < frames; ++received) {
    const auto sample = subscriber.receive(std::chrono::seconds(30));
    if (!sample) throw std::runtime_error("no features came in 30 seconds");
    const tensorbus::Value message = sample->fields();
    const std::span<const float> values = sample->tensor("features").as<float>();
    const std::int64_t arrived_ns = wall_clock_ns();

    features.write(reinterpret_cast<const char*>(values.data()),
                   static_cast<std::streamsize>(values.size_bytes()));
    arrivals << message.at("index").as<std::int64_t>() << ' '
             << message.at("sent_ns").as<std::int64_t>() << ' ' << arrived_ns << std::endl;
  }
  if (!features.flush() || !arrivals) throw std::runtime_error("cannot write " + results.string());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: sink RESULTS FRAMES\n";
    return 2;
  }
  try {
    receive_features(argv[1], std::atoi(argv[2]));
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
