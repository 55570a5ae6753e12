/* Shares tensors by a handle: a line of text that any channel can carry to any process of the
 * domain. */
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

/* Keeps tensors available for all processes that have the handle. */
typedef struct tb_share tb_share;

typedef struct tb_share_options {
  uint32_t struct_size;
  uint32_t uses;  /* attachments after which the share ends; 0: any number */
  int64_t ttl_ns; /* the share ends after this time, used or not */
  int32_t shared; /* 1: a process that attaches with TB_ACCESS_SHARED may write, for all holders */
  int32_t reserved;
} tb_share_options;
#define TB_SHARE_OPTIONS_INIT {sizeof(tb_share_options), 0, TB_FOREVER, 0, 0}

/* Tensors in memory of the bus are shared in place; all others are copied once. */
TB_API tb_status tb_share_create(tb_participant* participant, const tb_message* message,
                                 const tb_share_options* options, tb_share** share);
/* Ends the share: no more processes can attach. Processes that have attached keep the tensors. */
TB_API void tb_share_destroy(tb_share* share);
/* "tensorbus:..."; valid as long as the share. */
TB_API const char* tb_share_handle(const tb_share* share);
/* 1 if processes can still attach. */
TB_API int32_t tb_share_is_open(const tb_share* share);

/* Checks the text of a handle without a request to another process. Returns
 * TB_ERROR_INVALID_ARGUMENT if it is cut short or changed; the message says why. */
TB_API tb_status tb_handle_check(const char* handle);

/* Gets the tensors of a handle, any number of times. `access`: as in sample.h. Returns
 * TB_TIMED_OUT, TB_INTERRUPTED; TB_ERROR_CLOSED if the owner is gone or has ended the share;
 * TB_ERROR_INVALID_ARGUMENT if the share has other tensors than the handle describes;
 * TB_ERROR_PERMISSION if write access is requested and the share is read-only. */
TB_API tb_status tb_attach(tb_participant* participant, const char* handle, int32_t access,
                           int64_t timeout_ns, const tb_give_up* give_up, tb_sample** sample);

/* Allocates memory of the bus that this process keeps, on a device. It may be filled, shared and
 * published by reference any number of times; all holders see later writes. `shared`: 1 if other
 * processes can also get write access. The bytes are not cleared. tb_loan_destroy() ends it. */
TB_API tb_status tb_empty(tb_participant* participant, const tb_layout* layout, int32_t device,
                          int32_t shared, tb_loan** memory);
/* 1 if other processes can get write access to these bytes, in memory of the bus or of a mapped
 * file. */
TB_API int32_t tb_is_shared(tb_participant* participant, const void* data, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
