#pragma once

#include <functional>
#include <string>

namespace tensorbus::platform {

// Runs to the end of the process, with all signals blocked: they are for the program's own threads.
// Throws Error(kSystem), or Error(kOutOfMemory), that names `what` there is no thread for.
void start_background_thread(const std::string& what, std::function<void()> run);

}  // namespace tensorbus::platform
