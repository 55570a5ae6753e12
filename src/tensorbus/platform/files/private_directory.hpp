#pragma once

#include <string>
#include <vector>

#include "tensorbus/platform/fd.hpp"

namespace tensorbus::platform {

// A directory that only this user and root can reach by its path: each directory above it belongs
// to one of both, and others cannot rename or replace what lies there.
struct PrivateDirectory {
  Fd directory;           // to be read; empty: there is none, and it was not to be made
  std::vector<Fd> above;  // from / on, as far as there are any; O_PATH
};

enum class IfMissing { kMake, kLeave };

// Opens it step by step, each directory through the descriptor of the one above. The rules:
// - The directory itself belongs to this user, and nobody else may write to it.
// - Each one above belongs to this user or to root. Nobody else may write to it, unless it has the
//   sticky bit (/tmp) or is a mount of root's (an emptyDir of Kubernetes); what lies there has to
//   be this user's or root's. The group of the owner's own number is the owner (umask 002).
// - A symbolic link is followed if it is this user's or root's, in a directory to which nobody else
//   may write.
// - In a user namespace root may be unmapped: then "nobody" counts as root, except in a directory
//   to which others may write.
// Missing directories are made, with mode 0700. Throws Error(kPermission) that says whose it is and
// what to do.
PrivateDirectory open_private(const std::string& path, IfMissing if_missing);

// The directory alone, made if need be.
Fd open_private_directory(const std::string& path);

// Do both descriptors name one directory?
bool is_same_directory(int one, int other) noexcept;
// Nothing can be made there any more.
bool is_removed(int directory) noexcept;

}  // namespace tensorbus::platform
