/* What was received: a message by reference, in memory of its owner, which stays as it is until the
 * sample is let go of. */
#ifndef TENSORBUS_C_SAMPLE_H
#define TENSORBUS_C_SAMPLE_H

#include <stddef.h>
#include <stdint.h>
#include <tensorbus/c/status.h>
#include <tensorbus/c/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counted: it is let go of when it was released as often as it was given or retained. */
typedef struct tb_sample tb_sample;

TB_API void tb_sample_retain(tb_sample* sample);
TB_API void tb_sample_release(tb_sample* sample);

/* What may be done with the tensors that are received. */
enum {
  TB_ACCESS_READ = 0, /* read them where they are; to write is a crash */
  TB_ACCESS_PRIVATE =
      1,               /* write them, for this receiver alone: a copy is made of what is written */
  TB_ACCESS_SHARED = 2 /* write them for all who have them, if whoever sends allows that */
};

typedef struct tb_sample_header {
  uint32_t struct_size;
  uint32_t publisher_number;
  uint64_t sequence;     /* counts from 0 for each publisher */
  uint64_t timestamp_ns; /* wall clock, when it was published */
  uint64_t fingerprint;  /* of the message type; 0: untyped */
  uint8_t publisher[16]; /* the participant that published it */
  const char* topic;     /* valid while the sample lives */
  int32_t has_origin;    /* 1: a bridge brought it from elsewhere */
  int32_t reserved;
  tb_origin origin;
} tb_sample_header;
#define TB_SAMPLE_HEADER_INIT {sizeof(tb_sample_header), 0, 0, 0, 0, {0}, NULL, 0, 0, {{0}, {0}, 0}}
TB_API void tb_sample_get_header(const tb_sample* sample, tb_sample_header* header);

TB_API uint32_t tb_sample_tensor_count(const tb_sample* sample);
/* TB_ERROR_INVALID_ARGUMENT: there is none of this index. */
TB_API tb_status tb_sample_tensor(const tb_sample* sample, uint32_t index, tb_tensor* tensor);
/* The one at this key of the fields. TB_ERROR_INVALID_ARGUMENT: there is none. */
TB_API tb_status tb_sample_tensor_at(const tb_sample* sample, const char* key, tb_tensor* tensor);

/* The small fields as they came: one value in MessagePack, or no bytes. Valid while it lives. */
TB_API const void* tb_sample_fields(const tb_sample* sample, size_t* bytes);

/* Of tensors on GPUs, for every stream (CUstream, cudaStream_t; NULL: the legacy default stream)
 * that works with it, before that does: what is enqueued there from now on finds the tensor as it
 * was published, and has run before its owner uses the memory again. Does not wait. `device`: the
 * GPU that the stream is of. TB_ERROR_UNSUPPORTED: the stream is being captured into a graph. */
TB_API tb_status tb_sample_use_on(const tb_sample* sample, uint32_t index, void* stream,
                                  int32_t device);
/* 0: its publisher died before a GPU had written it. Asked after the work with it is done, it says
 * whether that was for nothing. */
TB_API int32_t tb_sample_intact(const tb_sample* sample);

/* The same in writable memory of this process alone. */
TB_API tb_status tb_sample_copy(const tb_sample* sample, tb_sample** copy);

#ifdef __cplusplus
}
#endif

#endif
