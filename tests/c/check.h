/* What the tests of the C interface are written with. */
#ifndef TENSORBUS_TESTS_C_CHECK_H
#define TENSORBUS_TESTS_C_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <tensorbus/tensorbus.h>

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not so: %s\n  the last error: %s\n", __FILE__, __LINE__, #condition, \
              tb_error_message());                                                                 \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

/* The status of a call, by its name if it is another. */
#define CHECK_STATUS(call, wanted)                                                           \
  do {                                                                                       \
    const tb_status status_ = (call);                                                        \
    if (status_ != (wanted)) {                                                               \
      fprintf(stderr, "%s:%d: %s is %s, not %s\n  the last error: %s\n", __FILE__, __LINE__, \
              #call, tb_status_name(status_), tb_status_name(wanted), tb_error_message());   \
      exit(1);                                                                               \
    }                                                                                        \
  } while (0)
#define CHECK_OK(call) CHECK_STATUS(call, TB_OK)

#define LONG_NS INT64_C(30000000000)

#endif
