#pragma once

#include <functional>
#include <string>

namespace tensorbus::platform {

// Starts a thread that lives until the process ends. The thread blocks all signals: signals are for
// the program's own threads. Throws Error(kSystem), or Error(kOutOfMemory), with `what` in its text
// if no thread can be started.
void start_background_thread(const std::string& what, std::function<void()> run);

}  // namespace tensorbus::platform
