// The tests, or the role that one of them starts this program in.

#include <cstdio>
#include <string_view>

#include "support.hpp"

int main(int count, char** arguments) {
  using namespace tensorbus::testing;
  if (count > 2 && std::string_view(arguments[1]) == kRoleOption) {
    const auto role = roles().find(arguments[2]);
    if (role == roles().end()) return 126;
    try {
      return role->second({arguments + 3, arguments + count});
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: %s\n", arguments[2], error.what());
      return 125;
    }
  }
  ::testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
