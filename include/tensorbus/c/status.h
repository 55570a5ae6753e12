/* What became of a call. */
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

/* 0: done. Positive: it was not, and that is an ordinary outcome of the data path. Negative: an
 * error, of which tb_error_message() tells more. New ones may be added. */
typedef int32_t tb_status;
enum {
  TB_OK = 0,
  TB_TIMED_OUT = 1,
  TB_INTERRUPTED = 2, /* a signal handler ran, or tb_give_up said so; call again to go on */
  TB_CLOSED = 3,      /* the object, or the other side, is closed */
  TB_HOLD_LIMIT = 4,  /* this subscriber holds max_held samples, and there are more */

  TB_ERROR_INVALID_ARGUMENT = -1, /* the caller's mistake */
  TB_ERROR_UNSUPPORTED = -2,      /* a tensor or option that cannot travel, or is not to be had */
  TB_ERROR_OUT_OF_MEMORY = -3,    /* a limit was reached; the message names it */
  TB_ERROR_CLOSED = -4,           /* what is needed for an answer is gone */
  TB_ERROR_TIMEOUT = -5,          /* a process that owes an answer does not give it */
  TB_ERROR_PROTOCOL = -6,         /* a peer sent something that is not the protocol */
  TB_ERROR_VERSION_MISMATCH = -7, /* a peer, or this program, is of another version */
  TB_ERROR_PERMISSION = -8,       /* somebody else's, or not to be written to */
  TB_ERROR_FORKED = -9,           /* made before fork(), and used in the child */
  TB_ERROR_SYSTEM = -10,          /* a system call failed */
  TB_ERROR_TYPE_MISMATCH = -11    /* both sides of a topic mean different messages */
};

/* Why the last call of this thread that failed did so: what was expected, what came, what to do.
 * Valid until the next call of this thread that fails; "" before the first. */
TB_API const char* tb_error_message(void);

/* "TB_TIMED_OUT", say; "" for a number that is no status. */
TB_API const char* tb_status_name(tb_status status);

/* How long to wait, in nanoseconds. */
#define TB_NOW INT64_C(0)
#define TB_FOREVER INT64_MAX

/* Asked at least ten times a second by a call that waits: it ends with TB_INTERRUPTED when asked()
 * returns anything but 0. Without one (NULL), every signal that arrives while it is parked does
 * that. */
typedef struct tb_give_up {
  int (*asked)(void* context);
  void* context;
} tb_give_up;

#ifdef __cplusplus
}
#endif

#endif
