// A program of a user: receives detections. GCC 12 warned about its optional text at -O3.
#include <chrono>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <tensorbus/tensorbus.hpp>
#include <vector>

struct Detection {
  std::string label;
  double score = 0;
  tensorbus::ArrayField box;
  std::optional<std::string> frame_id;
};
TENSORBUS_MESSAGE(Detection, "demo.Detection", label, score, box, frame_id)

struct Detections {
  std::vector<Detection> items;
  std::int64_t sequence = 0;
};
TENSORBUS_MESSAGE(Detections, "demo.DetectionList", items, sequence)

int main() try {
  using namespace std::chrono_literals;
  tensorbus::Subscriber subscriber("cxx/detections",
                                   {.type = tensorbus::message_type<Detections>()});
  while (auto sample = subscriber.receive(5s)) {
    const auto found = tensorbus::read_message<Detections>(*sample);
    std::cout << found.sequence << ": " << found.items.size();
    for (const auto& d : found.items) {
      const auto box = d.box.tensor().as<float>();
      std::cout << ' ' << d.label << ' ' << d.score << " [" << box[0] << ',' << box[3] << "] "
                << d.frame_id.value_or("-");
    }
    std::cout << '\n';
    if (found.sequence == 2) break;
  }
} catch (const tensorbus::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
