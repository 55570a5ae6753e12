#include <cstdio>
#include <tensorbus/tensorbus.hpp>
#include <tensorbus/version.hpp>

// Prints the version, and fails unless calls and exceptions cross the library's border.
int main() {
  if (tensorbus::Id::random() == tensorbus::Id::random()) return 1;
  try {
    tensorbus::throw_system("consumer", 2);
  } catch (const tensorbus::Error& error) {
    if (error.code() != tensorbus::Code::kSystem) return 1;
    std::puts(tensorbus::kVersion);
    return 0;
  }
}
