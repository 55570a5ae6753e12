/* What the library has to say beside the results of calls. */
#ifndef TENSORBUS_C_LOG_H
#define TENSORBUS_C_LOG_H

#include <stdint.h>
#include <tensorbus/c/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* New ones may be added. */
enum {
  TB_LOG_INFO = 0, /* what the options allow, such as samples dropped for a slow subscriber */
  TB_LOG_WARNING =
      1,           /* a limit was met, and the library tries again; a peer was refused or cut off */
  TB_LOG_ERROR = 2 /* something was given up, such as a connection to a peer */
};

/* Gets a line of text, without a line end, which is valid until it returns. Called in any thread,
 * most often in the library's own, which can do nothing else meanwhile: it returns soon, and calls
 * no function of this library but tb_set_log(). */
typedef void (*tb_log)(void* context, int32_t level, const char* text);

/* Sends such lines to `log` in place of stderr, for the whole process; NULL: to stderr again, which
 * gets none of TB_LOG_INFO.
 * Another thread may call the one before for a moment more, so its context has to live on. A forked
 * child has what its parent had. Of the messages for a write to read-only memory, a truncated file
 * and a broken invariant, which signal handlers write, none comes here.
 * Returns TB_ERROR_OUT_OF_MEMORY if there is no memory to keep it. */
TB_API tb_status tb_set_log(tb_log log, void* context);

#ifdef __cplusplus
}
#endif

#endif
