// Publishes what examples/hello/publisher.py publishes: ./subscriber receives it, and so does
// examples/hello/subscriber.py.
#include <chrono>
#include <cstddef>
#include <iostream>
#include <span>
#include <tensorbus/tensorbus.hpp>
#include <thread>

int main() {
  try {
    tensorbus::Publisher publisher("hello");
    for (int count = 0; count < 100; ++count) {
      // A loan is shared memory: what is written into it is not copied any more.
      const tensorbus::Loan loan = publisher.loan<float>({5});
      const std::span<float> multiples = loan.as<float>();
      for (std::size_t i = 0; i < multiples.size(); ++i)
        multiples[i] = static_cast<float>(i) * count;

      // The dict {"count": count, "multiples": <the first tensor>}.
      publisher.publish(
          tensorbus::Value::Map{{"count", count}, {"multiples", tensorbus::TensorIndex{0}}},
          {loan.view()});
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
  } catch (const tensorbus::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
