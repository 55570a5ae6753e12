// A program of a user: publishes on "boxes" what it makes of each sample of "camera", and on "pair"
// what it makes of two.
#include <optional>
#include <tensorbus/tensorbus.hpp>
#include <utility>

int main() {
  tensorbus::Publisher boxes("boxes");
  tensorbus::Publisher pair("pair");
  std::optional<tensorbus::Sample> first;
  tensorbus::Executor executor;
  executor.on_sample(tensorbus::Subscriber("camera"), [&](tensorbus::Sample sample) {
    boxes.publish(tensorbus::Value(1), {});
    if (!first) {
      first = std::move(sample);
      return;
    }
    const tensorbus::Parents parents({&*first, &sample});
    pair.publish(tensorbus::Value(2), {});
    executor.stop();
  });
  executor.run();
}
