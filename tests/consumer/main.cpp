#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <tensorbus/tensorbus.hpp>
#include <tensorbus/version.hpp>
#include <utility>

namespace {

// A tensor and an exception come through the library.
bool works() {
  tensorbus::Queue queue;
  const float value = 0.5F;
  queue.put({.tensors = {tensorbus::TensorView::of(&value, {1})}});
  tensorbus::Sample item;
  if (queue.get(item) != tensorbus::Outcome::kDone) return false;
  if (item.tensor().as<float>()[0] != value) return false;
  try {
    const tensorbus::Publisher nameless("");
  } catch (const tensorbus::Error& error) {
    return error.code() == tensorbus::Code::kInvalidArgument;
  }
  return false;
}

// Hears a tensor of "numbers", and publishes one of "doubled".
bool doubles() {
  tensorbus::Subscriber subscriber("numbers");
  tensorbus::Publisher publisher("doubled");
  const auto sample = subscriber.receive(std::chrono::seconds(100));
  if (!sample) return false;
  const std::span<const float> numbers = sample->tensor().as<float>();
  tensorbus::Loan loan = publisher.loan<float>({static_cast<std::int64_t>(numbers.size())});
  for (std::size_t i = 0; i < numbers.size(); ++i) loan.as<float>()[i] = 2 * numbers[i];
  if (publisher.wait_for_subscribers(1, std::chrono::seconds(100)) != tensorbus::Outcome::kDone)
    return false;
  publisher.publish(std::move(loan));
  while (std::getchar() != EOF) {  // until it was received
  }
  return true;
}

}  // namespace

// Prints the version if the library works; with an argument, doubles a tensor of another process.
int main(int count, char**) {
  if (count > 1) return doubles() ? 0 : 1;
  if (!works()) return 1;
  std::puts(tensorbus::kVersion);
  return 0;
}
