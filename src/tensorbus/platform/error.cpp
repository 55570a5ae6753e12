#include "tensorbus/platform/error.hpp"

#include <system_error>

namespace tensorbus {

void throw_system(const std::string& what, int error_number) {
  throw Error(Code::kSystem, what + ": " + std::generic_category().message(error_number));
}

}  // namespace tensorbus
