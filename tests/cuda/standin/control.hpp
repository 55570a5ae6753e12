#pragma once

#include <cstddef>

#include "tensorbus/device/cuda/api.hpp"

// Tests control the stand-in for libcuda.so.1 by these functions: linked, or looked up with dlsym.
//
// Environment of a process, read at its first call:
//   STANDIN_DEVICES       how many devices the machine has (2)
//   CUDA_VISIBLE_DEVICES  their numbers on the machine, in the order of this process's ordinals
//   STANDIN_MEMORY        bytes that this process may allocate on each device (1 GiB)
//   STANDIN_WITHOUT       what they cannot do: "vmm", "posix_fd", "mem_ops", "host_register",
//                         "read_only_pins", "legacy_ipc", "peer", "pools",
//                         "pool_ipc", with commas between
//   STANDIN_FAIL          standin_fail for another process: "cuMemCreate:2:801,cuInit:0:803"
//
// None of these functions may be called in a child forked after cuInit.
#define STANDIN_EXPORT __attribute__((visibility("default")))

extern "C" {

// Makes calls of the function with this symbol ("cuMemAlloc_v2") return `result` and do nothing
// else, after `after_calls` more calls; a result of 0 ends that.
STANDIN_EXPORT void standin_fail(const char* symbol, int after_calls, int result);
// Returns how often it was called in this process, failures included.
STANDIN_EXPORT std::size_t standin_calls(const char* symbol);
// Returns how often this thread called it.
STANDIN_EXPORT std::size_t standin_calls_here(const char* symbol);

// A paused stream starts no further operation: the work in its queue counts as running.
STANDIN_EXPORT void standin_pause(tensorbus::device::cu::Stream stream);
STANDIN_EXPORT void standin_resume(tensorbus::device::cu::Stream stream);
// While held, no stream begins another copy.
STANDIN_EXPORT void standin_hold_copies(bool held);
// Waits until no stream of this process has work left, including streams that no test made.
STANDIN_EXPORT void standin_finish();
// A kernel: any code, run in the stream's order. It may not call the driver.
STANDIN_EXPORT void standin_launch(tensorbus::device::cu::Stream stream, void (*kernel)(void*),
                                   void* argument);
// Begins and ends a capture. Captured work is not run.
STANDIN_EXPORT void standin_capture(tensorbus::device::cu::Stream stream, bool capturing);

// Returns the bytes that this process has allocated on a device and not freed.
STANDIN_EXPORT std::size_t standin_allocated_bytes(tensorbus::device::cu::Device device);
// Returns the number of mappings of chunks, and of other processes' allocations, that still exist.
STANDIN_EXPORT std::size_t standin_open_mappings();
// Returns the number of imported memory pools of other processes.
STANDIN_EXPORT std::size_t standin_imported_pools();

}  // extern "C"
