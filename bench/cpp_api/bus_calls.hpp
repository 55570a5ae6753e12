#pragma once

#include <string>

namespace bench {

// Nanoseconds of one call, the median of many batches.
struct CallTimes {
  double publish_ns = 0;  // loan a tensor, and publish it
  double receive_ns = 0;  // receive, look at the tensor, let go of it
};

// The same calls of 64 bytes in one process, through the classes inside libtensorbus, and through
// the headers that programs include. They are in files of their own: both have the same names.
CallTimes time_inside(const std::string& domain, int batches);
CallTimes time_headers(const std::string& domain, int batches);

}  // namespace bench
