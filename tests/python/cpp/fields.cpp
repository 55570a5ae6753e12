// A program of a user, with fields of every kind: publishes what it receives. With --type, prints
// the fingerprint of its message.
#include <array>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tensorbus/tensorbus.hpp>
#include <vector>

namespace robot {
enum class Mode : std::uint8_t { idle, driving = 4 };
}
TENSORBUS_ENUM(robot::Mode, idle, driving)

struct Detection {
  std::string label;
  double score = 0;
  tensorbus::ArrayField box;
  std::optional<std::string> frame_id;
};
TENSORBUS_MESSAGE(Detection, "robot.Detection", label, score, box, frame_id)

struct State {
  robot::Mode mode{};
  std::optional<robot::Mode> wanted;
  std::array<double, 3> position{};
  std::array<std::array<int, 2>, 2> grid{};
  std::map<robot::Mode, std::vector<robot::Mode>> reachable;
  std::vector<Detection> detections;
  std::optional<Detection> best;
  std::optional<std::array<std::string, 2>> names;
  std::optional<std::vector<std::string>> notes;
  std::optional<std::map<std::string, float>> levels;
  std::optional<std::vector<std::byte>> raw;
  std::optional<tensorbus::ArrayField> image;
  std::optional<tensorbus::TorchField> weights;
  std::optional<tensorbus::Handle> share;
  std::optional<bool> ready;
  std::optional<std::int16_t> count;
  tensorbus::Value any;
};
TENSORBUS_MESSAGE(State, "robot.State", mode, wanted, position, grid, reachable, detections, best,
                  names, notes, levels, raw, image, weights, share, ready, count, any)

int main(int count, char** arguments) try {
  const auto type = tensorbus::message_type<State>();
  if (count > 1 && std::string_view(arguments[1]) == "--type") {
    std::cout << type.fingerprint() << '\n';
    return 0;
  }
  tensorbus::Publisher publisher("state/echo", {.type = type});
  tensorbus::Subscriber subscriber("state", {.type = type});
  while (const auto sample = subscriber.receive(std::chrono::hours(1)))
    publish(publisher, tensorbus::read_message<State>(*sample));
} catch (const tensorbus::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
