/* The results of calls. */
#ifndef TENSORBUS_C_STATUS_H
#define TENSORBUS_C_STATUS_H

#include <stdint.h>

#if defined(TENSORBUS_BUILD)
#define TB_API __attribute__((visibility("default")))
#else
#define TB_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* 0: done. Positive: not done, an ordinary outcome of the data path. Negative: an error, which
 * tb_error_message() describes. New statuses may be added. */
typedef int32_t tb_status;
enum {
  TB_OK = 0,
  TB_TIMED_OUT = 1,
  TB_INTERRUPTED = 2, /* a signal handler or tb_give_up ended the call; call again to continue */
  TB_CLOSED = 3,      /* the object, or the other side, is closed */
  TB_HOLD_LIMIT = 4,  /* this subscriber holds max_held samples, and more are waiting */
  TB_SHUT_DOWN = 5,   /* the queue was shut down: it takes no items, and has none left */

  TB_ERROR_INVALID_ARGUMENT = -1, /* the caller's mistake */
  TB_ERROR_UNSUPPORTED = -2,      /* a tensor or option that cannot be sent, or is not available */
  TB_ERROR_OUT_OF_MEMORY = -3,    /* a limit was reached; the message names it */
  TB_ERROR_CLOSED = -4,           /* the process that had to reply is gone, or closed the object */
  TB_ERROR_TIMEOUT = -5,          /* a process did not reply in time */
  TB_ERROR_PROTOCOL = -6,         /* a peer sent something invalid */
  TB_ERROR_VERSION_MISMATCH = -7, /* a peer, or this program, has another version */
  TB_ERROR_PERMISSION = -8,       /* belongs to another user, or must not be written to */
  TB_ERROR_FORKED = -9,           /* made before fork() and used in the child */
  TB_ERROR_SYSTEM = -10,          /* a system call failed */
  TB_ERROR_TYPE_MISMATCH = -11    /* both sides of a topic have different message types */
};

/* Describes why the last failed call of this thread failed: what was expected, what was found, what
 * to do. Valid until the next call of this thread that fails; "" before the first one. */
TB_API const char* tb_error_message(void);

/* E.g. "TB_TIMED_OUT"; "" for a number that is not a status. */
TB_API const char* tb_status_name(tb_status status);

/* Timeouts, in nanoseconds. */
#define TB_NOW INT64_C(0)
#define TB_FOREVER INT64_MAX

/* A waiting call calls asked() at least ten times a second, and ends with TB_INTERRUPTED if the
 * result is not 0. Without a tb_give_up (NULL), every signal that arrives while the call sleeps
 * ends the call with TB_INTERRUPTED. */
typedef struct tb_give_up {
  int (*asked)(void* context);
  void* context;
} tb_give_up;

#ifdef __cplusplus
}
#endif

#endif
