#pragma once

#include "call.hpp"

namespace standin {

// Counts captures of streams that begin or end.
void count_captures(int more);

}  // namespace standin
