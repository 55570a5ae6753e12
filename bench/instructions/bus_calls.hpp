#pragma once

#include <string>

namespace bench {

// Counts publishing and receiving in one process, through the classes inside libtensorbus and
// through the headers that programs include. They are in files of their own: both have the same
// names.
void count_inside(const std::string& domain);
void count_headers(const std::string& domain);

}  // namespace bench
