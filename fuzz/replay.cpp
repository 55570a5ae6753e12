// Runs a fuzz target with an empty input, and with all files of the given directories. So earlier
// findings of the fuzzer are also tested without a fuzzer. A directory may be missing, but not all.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "fuzz/fuzz.hpp"

namespace {

std::set<std::string> files_in(const char* directory) {
  std::set<std::string> files;
  if (!std::filesystem::exists(directory)) return files;
  for (const auto& file : std::filesystem::directory_iterator(directory)) files.insert(file.path());
  return files;
}

void replay(const std::string& path) {
  std::fprintf(stderr, "%s\n", path.c_str());  // the last line names the failing file
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

int main(int count, char** directories) {
  LLVMFuzzerTestOneInput(nullptr, 0);
  std::size_t replayed = 0;
  for (int i = 1; i < count; ++i) {
    for (const std::string& path : files_in(directories[i])) {
      replay(path);
      ++replayed;
    }
  }
  std::fprintf(stderr, "%zu inputs\n", replayed);
  return replayed == 0 ? 1 : 0;
}
