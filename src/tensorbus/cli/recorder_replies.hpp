#pragma once

#include <string>
#include <tensorbus/values/recorded.hpp>
#include <tensorbus/values/value.hpp>

// What `tensorbus record` replies to `tensorbus recorder`. Both exist in Python, too.
namespace tensorbus::cli {

constexpr const char* kRecorderName = "recorder";  // of the service, by default

// Returns the reply: the file and the counters, by their names.
Value reply_of(const std::string& file, const RecorderStats& stats);
// Returns the counters of a reply. Fields that another version does not have are 0.
RecorderStats stats_in(const Value& reply);

}  // namespace tensorbus::cli
