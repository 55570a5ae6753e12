/* A received message, by reference: its tensors lie in the memory of their owner, which does not
 * reuse this memory until the sample is released. */
#ifndef TENSORBUS_C_SAMPLE_H
#define TENSORBUS_C_SAMPLE_H

#include <stddef.h>
#include <stdint.h>
#include <tensorbus/c/status.h>
#include <tensorbus/c/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A reference to a sample. Each reference that a function returns or tb_sample_retain() makes must
 * be released. The last release frees the sample. */
typedef struct tb_sample tb_sample;

TB_API void tb_sample_retain(tb_sample* sample);
TB_API void tb_sample_release(tb_sample* sample);

/* The access of a receiver to tensors. */
enum {
  TB_ACCESS_READ = 0,    /* read them in place; a write ends the process (SIGSEGV) */
  TB_ACCESS_PRIVATE = 1, /* write them for this receiver alone: written pages are copied */
  TB_ACCESS_SHARED = 2   /* write them for all holders, if the sender allows it */
};

typedef struct tb_sample_header {
  uint32_t struct_size;
  uint32_t publisher_number;
  uint64_t sequence;     /* counted from 0 for each publisher */
  uint64_t timestamp_ns; /* wall clock at publishing, ns since the Unix epoch */
  uint64_t fingerprint;  /* of the message type; 0: untyped */
  uint8_t publisher[16]; /* the participant that published it */
  const char* topic;     /* valid while the sample lives */
  int32_t has_origin;    /* 1: a bridge republished it */
  int32_t reserved;
  tb_origin origin;
} tb_sample_header;
#define TB_SAMPLE_HEADER_INIT {sizeof(tb_sample_header), 0, 0, 0, 0, {0}, NULL, 0, 0, {{0}, {0}, 0}}
TB_API void tb_sample_get_header(const tb_sample* sample, tb_sample_header* header);

TB_API uint32_t tb_sample_tensor_count(const tb_sample* sample);
/* Returns TB_ERROR_INVALID_ARGUMENT if no tensor has this index. */
TB_API tb_status tb_sample_tensor(const tb_sample* sample, uint32_t index, tb_tensor* tensor);
/* The tensor at this key of the fields. Returns TB_ERROR_INVALID_ARGUMENT if there is none. */
TB_API tb_status tb_sample_tensor_at(const tb_sample* sample, const char* key, tb_tensor* tensor);

/* The small fields as received: one value in MessagePack, or no bytes. Valid while the sample
 * lives. */
TB_API const void* tb_sample_fields(const tb_sample* sample, size_t* bytes);

/* Orders a stream with the writer and the owner of a tensor on a GPU. Call it for every stream
 * (CUstream, cudaStream_t; NULL: the legacy default stream) before the stream uses the tensor.
 * Later work of the stream finds the tensor as published, and the owner reuses the memory only
 * after this work has run. `device`: the GPU of the stream. Does not wait, except where streams
 * cannot wait for each other (docs/cuda.md): there the call waits. Returns TB_ERROR_UNSUPPORTED if
 * the stream is being captured into a graph. */
TB_API tb_status tb_sample_use_on(const tb_sample* sample, uint32_t index, void* stream,
                                  int32_t device);
/* 0 if the publisher died before a GPU had written the tensor. Call it after the work on the tensor
 * is done, to find out whether the result is valid. */
TB_API int32_t tb_sample_intact(const tb_sample* sample);

/* Copies the sample into writable memory that only this process has. */
TB_API tb_status tb_sample_copy(const tb_sample* sample, tb_sample** copy);

#ifdef __cplusplus
}
#endif

#endif
