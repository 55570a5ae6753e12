#pragma once

#include <cstddef>
#include <string>
#include <tensorbus/inspection.hpp>
#include <vector>

namespace tensorbus::cli {

// The processes that offer a service, each with a node that the directory lists.
struct Offers {
  std::size_t count = 0;                    // of those that replied
  std::vector<ParticipantReport> silent{};  // that have the node, and did not reply

  std::size_t all() const { return count + silent.size(); }
};

Offers offers_of(const std::string& service, const std::string& node, const std::string& domain,
                 const Inspection& inspection);

}  // namespace tensorbus::cli
