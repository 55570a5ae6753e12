#pragma once

#include "call.hpp"

namespace standin {

// Of streams, begun and ended.
void count_captures(int more);

}  // namespace standin
