/* Log lines of the library. */
#ifndef TENSORBUS_C_LOG_H
#define TENSORBUS_C_LOG_H

#include <stdint.h>
#include <tensorbus/c/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Later versions may add levels. */
enum {
  TB_LOG_INFO = 0, /* normal with these options, e.g. samples dropped for a slow subscriber */
  TB_LOG_WARNING =
      1, /* a limit was met, and the library tries again; or a peer was refused or cut off */
  TB_LOG_ERROR = 2 /* the library gave something up, e.g. a connection to a peer */
};

/* Gets one line of text without a line end; the text is valid until the function returns. Any
 * thread may call the function, usually the library's own thread, which does nothing else during
 * the call. So the function must return soon, and may call only tb_set_log(). */
typedef void (*tb_log)(void* context, int32_t level, const char* text);

/* Sends the log lines to `log` instead of stderr, for the whole process. NULL sends them to stderr
 * again, without TB_LOG_INFO. Another thread may still call the previous function for a moment, so
 * its context must stay valid. A forked child keeps its parent's function. Messages about a write
 * to read-only memory, a truncated file and a broken invariant always go to stderr. Returns
 * TB_ERROR_OUT_OF_MEMORY if there is no memory to store it. */
TB_API tb_status tb_set_log(tb_log log, void* context);

#ifdef __cplusplus
}
#endif

#endif
