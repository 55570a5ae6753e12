#pragma once

#include <string>
#include <vector>

#include "tensorbus/platform/fd.hpp"

namespace tensorbus::platform {

// A directory whose path only this user and root control: each directory above it belongs to one of
// them, and other users cannot rename or replace its entries.
struct PrivateDirectory {
  Fd directory;           // open for reading; empty if it does not exist and was not to be made
  std::vector<Fd> above;  // the directories from / on that exist; O_PATH
};

enum class IfMissing { kMake, kLeave };

// Opens a directory step by step, each through the descriptor of the one above. The rules:
// - The directory itself belongs to this user, and no other user may write to it.
// - Each directory above belongs to this user or to root. No other user may write to it, except if
//   it has the sticky bit (/tmp) or is a mount that belongs to root (an emptyDir of Kubernetes);
//   then the entry must belong to this user or to root. A group with the owner's own number counts
//   as the owner (umask 002).
// - A symbolic link is followed if it belongs to this user or to root, and lies in a directory to
//   which no other user may write.
// - In a user namespace root may be unmapped: then "nobody" counts as root, except in a directory
//   to which others may write.
//
// Missing directories get mode 0700. Throws Error(kPermission) with the owner and the remedy.
[[gnu::cold]] PrivateDirectory open_private(const std::string& path, IfMissing if_missing);

// Returns only the directory; makes it if it is missing.
Fd open_private_directory(const std::string& path);

// Returns true if both descriptors refer to the same directory.
bool is_same_directory(int one, int other) noexcept;
// Returns true if the directory was removed, so that no entries can be made in it.
bool is_removed(int directory) noexcept;

}  // namespace tensorbus::platform
