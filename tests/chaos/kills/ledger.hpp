#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace tensorbus::kills {

// What this process has of the kernel, as /proc says it.
struct Ledger {
  static Ledger now();

  // How many there are of each kind: what must be the same whenever all is calm.
  std::map<std::string, std::uint64_t> counts;
  // Segments with tensors in them come and go; each that is open or mapped here must be somebody's
  // who lives. By inode.
  std::set<std::uint64_t> segments_seen;
  std::set<std::uint64_t>
      segments_owned;  // those that are open for writing: its own, and what it may write
};

struct Resident {
  static Resident of_this_process();
  std::uint64_t bytes = 0;
  std::uint64_t anonymous_bytes = 0;  // what a leak of plain memory shows in
};

}  // namespace tensorbus::kills
