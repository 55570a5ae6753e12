#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace tensorbus::kills {

enum class Role : std::uint8_t {
  kPublisher,
  kSubscriber,
  kBoth,
  kForks,   // as kBoth, with a child that lives on
  kClones,  // the same, by the system call: nobody closes anything in the child
};
inline constexpr std::array<const char*, 5> kRoles = {"publisher", "subscriber", "both",
                                                      "both, forked", "both, cloned"};

// Never returns, unless it finds something wrong.
int be_a_victim(const std::string& domain, std::uint64_t seed, Role role);

// What a measured victim holds: so many samples of this topic, all from one publisher. It writes a
// byte to its standard output when it has them.
inline constexpr const char* kHoardTopic = "hoard";
inline constexpr int kHoard = 16;
// `leaves`: kForks or kClones with such a child, anything else without.
int be_a_hoarder(const std::string& domain, Role leaves);

}  // namespace tensorbus::kills
