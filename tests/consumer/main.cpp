#include <cstdio>
#include <tensorbus/tensorbus.hpp>
#include <tensorbus/version.hpp>

// Prints the version, and fails unless a tensor and an exception come through the library.
int main() {
  tensorbus::Queue queue;
  const float value = 0.5F;
  queue.put({.tensors = {tensorbus::TensorView::of(&value, {1})}});
  tensorbus::Sample item;
  if (queue.get(item) != tensorbus::Outcome::kDone) return 1;
  if (item.tensor().as<float>()[0] != value) return 1;
  try {
    const tensorbus::Publisher nameless("");
  } catch (const tensorbus::Error& error) {
    if (error.code() != tensorbus::Code::kInvalidArgument) return 1;
    std::puts(tensorbus::kVersion);
    return 0;
  }
  return 1;
}
