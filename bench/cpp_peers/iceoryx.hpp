#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "harness/messages.hpp"
#include "harness/processes.hpp"
#include "harness/sizes.hpp"
#include "harness/turns.hpp"

// iceoryx in C++, as its documentation has it for bytes of any size: untyped publishers and
// subscribers, whose memory a daemon of its own has made before.

namespace bench {

// That of Debian, not iceoryx2, which is another library and has no package for C++ here.
inline constexpr const char* kIceoryx = "iceoryx (2.x of Debian)";

// Its daemon, with memory for our sizes. Ends with this object, or with this process. To be made
// before there is a thread, in a process that never uses iceoryx: the daemon ends those that do.
class RouDi {
 public:
  RouDi();
  ~RouDi();
  RouDi(const RouDi&) = delete;
  RouDi& operator=(const RouDi&) = delete;

  // Empty: it runs.
  const std::string& why_not() const noexcept { return why_not_; }

 private:
  void wait_for_daemon();

  OwnDomain folder_;
  pid_t daemon_ = -1;
  std::string why_not_;
};

// One service: a publisher here and a subscriber there, of chunks of one size.
class IceoryxWay {
 public:
  IceoryxWay(TwoProcesses& both, const Size& size);
  ~IceoryxWay();
  IceoryxWay(const IceoryxWay&) = delete;
  IceoryxWay& operator=(const IceoryxWay&) = delete;

  void run(const std::string& row, const Pace& pace, Rows& rows);

 private:
  struct Ends;

  TwoProcesses& both_;
  std::unique_ptr<Ends> ends_;
};

}  // namespace bench
