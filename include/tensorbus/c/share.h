/* Tensors behind a handle: a line of text that any means can carry to any process of the domain. */
#ifndef TENSORBUS_C_SHARE_H
#define TENSORBUS_C_SHARE_H

#include <stddef.h>
#include <stdint.h>
#include <tensorbus/c/participant.h>
#include <tensorbus/c/sample.h>
#include <tensorbus/c/status.h>
#include <tensorbus/c/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Keeps tensors for whoever has the handle. */
typedef struct tb_share tb_share;

typedef struct tb_share_options {
  uint32_t struct_size;
  uint32_t uses;  /* after so many have attached it is over; 0: any number */
  int64_t ttl_ns; /* after this long it is over, whether anybody came or not */
  int32_t shared; /* 1: who attaches with TB_ACCESS_SHARED may write to it, for all */
  int32_t reserved;
} tb_share_options;
#define TB_SHARE_OPTIONS_INIT {sizeof(tb_share_options), 0, TB_FOREVER, 0, 0}

/* Tensors in memory of the bus are shared as they are, all others are copied once. */
TB_API tb_status tb_share_create(tb_participant* participant, const tb_message* message,
                                 const tb_share_options* options, tb_share** share);
/* Nobody new can attach; who has attached keeps what they have. */
TB_API void tb_share_destroy(tb_share* share);
/* "tensorbus:..."; valid as long as the share. */
TB_API const char* tb_share_handle(const tb_share* share);
/* 1: somebody can attach still. */
TB_API int32_t tb_share_is_open(const tb_share* share);

/* TB_ERROR_INVALID_ARGUMENT, and what is wrong: the text is no whole handle. Asks nobody. */
TB_API tb_status tb_handle_check(const char* handle);

/* What is behind a handle, any number of times. `access` as in sample.h. TB_TIMED_OUT,
 * TB_INTERRUPTED; TB_ERROR_CLOSED: its owner is gone, or shares it no longer;
 * TB_ERROR_INVALID_ARGUMENT: the handle is not what it says; TB_ERROR_PERMISSION: it may only be
 * read. */
TB_API tb_status tb_attach(tb_participant* participant, const char* handle, int32_t access,
                           int64_t timeout_ns, const tb_give_up* give_up, tb_sample** sample);

/* Memory of the bus that this process keeps, on a device: it is filled, shared and published by
 * reference any number of times, and whoever has it sees what is written. `shared`: 1: others may
 * be given the right to write to it, too. Its bytes are not cleared. It ends with
 * tb_loan_destroy(). */
TB_API tb_status tb_empty(tb_participant* participant, const tb_layout* layout, int32_t device,
                          int32_t shared, tb_loan** memory);
/* 1: these bytes lie in memory of the bus, or of a mapped file, that others may be given the right
 * to write to. */
TB_API int32_t tb_is_shared(tb_participant* participant, const void* data, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
