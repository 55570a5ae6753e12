// The camera: publishes so many frames, as fast as the model takes them.
//
//   capture FRAMES
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <tensorbus/tensorbus.hpp>
#include <utility>

namespace {

// A picture that changes from frame to frame; a camera's driver would write here.
void draw(tensorbus::ArrayView<std::uint8_t, 3> picture, int number) {
  for (std::int64_t y = 0; y < picture.extent(0); ++y)
    for (std::int64_t x = 0; x < picture.extent(1); ++x)
      for (std::int64_t c = 0; c < picture.extent(2); ++c)
        picture(y, x, c) = static_cast<std::uint8_t>(x * (c + 1) + y * number);
}

void publish_frames(int count) {
  tensorbus::Publisher publisher("camera/frame", {.reliable = true});
  publisher.wait_for_subscribers(1, std::chrono::minutes(1));
  for (int number = 0; number < count; ++number) {
    // A loan is shared memory: what is written into it is not copied any more.
    tensorbus::Loan frame = publisher.loan<std::uint8_t>({120, 160, 3});
    draw(frame.view<std::uint8_t, 3>(), number);
    publisher.publish(std::move(frame));
  }
}

}  // namespace

int main(int argc, char** argv) try {
  publish_frames(argc > 1 ? std::atoi(argv[1]) : 100);
} catch (const tensorbus::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
