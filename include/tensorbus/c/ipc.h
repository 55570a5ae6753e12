/* Raw CUDA IPC handles (the 64 bytes of a cudaIpcMemHandle_t) exchange memory of cudaMalloc with
 * programs that do not use Tensorbus. docs/tasks/cuda_ipc.md explains which program keeps the
 * memory, and how long. */
#ifndef TENSORBUS_C_IPC_H
#define TENSORBUS_C_IPC_H

#include <stddef.h>
#include <stdint.h>
#include <tensorbus/c/sample.h>
#include <tensorbus/c/status.h>
#include <tensorbus/c/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A handle names a whole allocation. The data begin at byte `offset` of the allocation. */
typedef struct tb_ipc_handle {
  uint32_t struct_size;
  int32_t device; /* the ordinal of the GPU in this process */
  uint8_t bytes[64];
  uint64_t offset;
  uint64_t allocation_bytes; /* not read by tb_ipc_open() */
} tb_ipc_handle;
#define TB_IPC_HANDLE_INIT {sizeof(tb_ipc_handle), 0, {0}, 0, 0}

/* Returns the handle of `bytes` bytes of GPU memory of this process. It is valid until the
 * allocation is freed or this process ends. Every program that opened the handle must close it
 * before that; otherwise the behaviour of CUDA is undefined. The handle does not order streams: the
 * data are complete when the stream that writes them has run. Returns TB_ERROR_INVALID_ARGUMENT for
 * bytes that are not GPU memory; TB_ERROR_UNSUPPORTED without a driver, and for memory that has no
 * handle: memory of pools and of cuMemCreate, managed memory, and memory opened by a handle. */
TB_API tb_status tb_ipc_handle_of(const void* data, size_t bytes, tb_ipc_handle* handle);

/* Returns a sample of one writable tensor in memory of another program. An allocation is opened
 * once for each process and device. It is closed when the last sample in it is released and the
 * streams named by tb_sample_use_on() have finished. The sample has no publisher and cannot be
 * copied by tb_sample_copy(). Returns TB_ERROR_INVALID_ARGUMENT for a handle of this process, for
 * memory on another GPU, and if offset, shape and strides reach outside of the allocation;
 * TB_ERROR_CLOSED if the memory no longer exists; TB_ERROR_UNSUPPORTED without a driver, or if the
 * GPU cannot reach the memory; TB_ERROR_FORKED in a child of the process that initialised CUDA. */
TB_API tb_status tb_ipc_open(const tb_ipc_handle* handle, const tb_layout* layout,
                             tb_sample** sample);

#ifdef __cplusplus
}
#endif

#endif
