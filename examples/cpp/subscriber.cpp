// Prints what ./publisher or examples/hello/publisher.py says, until it has been silent for 10
// seconds.
#include <chrono>
#include <cstdint>
#include <exception>
#include <iostream>
#include <tensorbus/tensorbus.hpp>

int main() {
  try {
    tensorbus::Subscriber subscriber("hello");
    while (const auto sample = subscriber.receive(std::chrono::seconds(10))) {
      const tensorbus::Value dict = sample->fields();
      std::cout << sample->header().sequence << " count=" << dict.at("count").as<std::int64_t>()
                << " multiples=";
      for (const float value : sample->tensor("multiples").as<float>()) std::cout << value << ' ';
      std::cout << std::endl;
    }
  } catch (const std::exception& error) {  // tensorbus::Error, or a message of another shape
    std::cerr << error.what() << '\n';
    return 1;
  }
}
