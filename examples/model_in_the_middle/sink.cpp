// The sink: says what each frame is, until it has heard of so many.
//
//   sink FRAMES
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <tensorbus/tensorbus.hpp>

namespace {

void say_what_they_are(int count) {
  tensorbus::Subscriber subscriber("model/scores");
  for (int heard = 0; heard < count; ++heard) {
    const auto sample = subscriber.receive(std::chrono::minutes(1));
    if (!sample) throw tensorbus::Error(tensorbus::Code::kTimeout, "no scores came in a minute");
    const auto frame = sample->fields().at("frame").as<std::int64_t>();
    const auto scores = sample->tensor("scores").as<float>();
    const auto best = std::ranges::max_element(scores);
    std::cout << "frame " << frame << ": class " << best - scores.begin() << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) try {
  say_what_they_are(argc > 1 ? std::atoi(argv[1]) : 100);
} catch (const tensorbus::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
