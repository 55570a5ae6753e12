/* Sends samples to every subscriber of a topic, in any process of the domain. */
#ifndef TENSORBUS_C_PUBLISHER_H
#define TENSORBUS_C_PUBLISHER_H

#include <stddef.h>
#include <stdint.h>
#include <tensorbus/c/participant.h>
#include <tensorbus/c/sample.h>
#include <tensorbus/c/status.h>
#include <tensorbus/c/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tb_publisher tb_publisher;

typedef struct tb_publisher_options {
  uint32_t struct_size;
  uint32_t depth; /* samples that may wait for a subscriber without a depth of its own; a full queue
                     drops its oldest */
  uint32_t history;   /* number of last samples kept for later subscribers */
  int32_t reliable;   /* 1: drops nothing; publishing waits for a full subscriber */
  int64_t timeout_ns; /* limit for this wait */
  int32_t shared;     /* 1: subscribers with TB_ACCESS_SHARED may write to its samples */
  int32_t isolated; /* 1: samples lie in segments of their own, so that subscribers can read nothing
                       else of this process; tensors elsewhere are copied, except mapped files and
                       GPU memory (docs/limits.md) */
  const char* type; /* the definition of its message type (docs/messages.md); NULL: any */
  const char* node; /* its node, for listings; NULL: none */
  int64_t lag_timeout_ns; /* a subscriber without room for this long, while publishing waited or
                             gave up, is cut off and publishing continues; it is connected again
                             when it looks for samples. 0: never. Only if reliable */
} tb_publisher_options;
#define TB_PUBLISHER_OPTIONS_INIT \
  {sizeof(tb_publisher_options), 8, 0, 0, TB_FOREVER, 0, 0, NULL, NULL, 0}

/* Returns TB_ERROR_INVALID_ARGUMENT for an empty topic, or if `type` is not a definition. */
TB_API tb_status tb_publisher_create(tb_participant* participant, const char* topic,
                                     const tb_publisher_options* options, tb_publisher** publisher);
/* Closes it. */
TB_API void tb_publisher_destroy(tb_publisher* publisher);

/* Loans memory for one tensor, on a device. Returns TB_ERROR_OUT_OF_MEMORY; TB_ERROR_UNSUPPORTED,
 * with the reason in the message, if GPU memory is not available; TB_ERROR_CLOSED. */
TB_API tb_status tb_publisher_loan(tb_publisher* publisher, const tb_layout* layout, int32_t device,
                                   tb_loan** loan);

/* The result of publishing a sample. */
typedef struct tb_published {
  uint32_t struct_size;
  uint32_t subscribers; /* that have it in their queues */
  uint64_t sequence;
} tb_published;
#define TB_PUBLISHED_INIT {sizeof(tb_published), 0, 0}

/* Publishes a loan as it is; with TB_OK it is consumed and *loan is NULL. `stream`: as in
 * tb_tensor. `published` may be NULL. Returns TB_TIMED_OUT and TB_INTERRUPTED if a subscriber of a
 * reliable publisher had no room; TB_CLOSED. */
TB_API tb_status tb_publisher_publish_loan(tb_publisher* publisher, tb_loan** loan, void* stream,
                                           tb_published* published);
/* Publishes a message; no subscriber gets it unless this returns TB_OK. Returns the same statuses,
 * and TB_ERROR_INVALID_ARGUMENT for invalid tensors and for a loan that was published before. */
TB_API tb_status tb_publisher_publish(tb_publisher* publisher, const tb_message* message,
                                      tb_published* published);
/* Like tb_publisher_publish(), with a timeout for this call. Only a reliable publisher uses it. */
TB_API tb_status tb_publisher_publish_within(tb_publisher* publisher, const tb_message* message,
                                             int64_t timeout_ns, const tb_give_up* give_up,
                                             tb_published* published);

/* The result of publishing many messages. */
typedef struct tb_published_many {
  uint32_t struct_size;
  uint32_t subscribers; /* that have the last one in their queues */
  uint64_t count;       /* number of published messages, in order */
  uint64_t sequence;    /* of the last one */
} tb_published_many;
#define TB_PUBLISHED_MANY_INIT {sizeof(tb_published_many), 0, 0, 0}

/* Publishes each row of a tensor in host memory as one message, like consecutive calls of
 * tb_publisher_publish_within(). The rows are along the first dimension; each is copied once. This
 * is faster for many small messages, because it takes its locks, and wakes the subscribers, once
 * for many. Without TB_OK, only the first `count` rows were published. TB_INTERRUPTED after the
 * first row: another call publishes the other rows, or returns the error that stopped this call. */
TB_API tb_status tb_publisher_publish_many(tb_publisher* publisher, const tb_tensor* rows,
                                           int64_t timeout_ns, const tb_give_up* give_up,
                                           tb_published_many* published);

/* Waits for `count` subscribers. Returns TB_TIMED_OUT, TB_INTERRUPTED, TB_CLOSED. */
TB_API tb_status tb_publisher_wait_for_subscribers(tb_publisher* publisher, uint32_t count,
                                                   int64_t timeout_ns);

typedef struct tb_publisher_stats {
  uint32_t struct_size;
  uint32_t subscribers;
  uint32_t waiting;    /* threads that wait in a publishing call */
  uint32_t blocked_by; /* if reliable: the pid of a subscriber without room; 0: none */
  uint64_t sent;
  uint64_t delivered;      /* into subscribers' queues, summed */
  uint64_t dropped_depth;  /* taken out of a full queue for a newer one */
  uint64_t dropped_held;   /* not queued: the subscriber holds as many as it may */
  uint64_t dropped_unsent; /* not queued: no descriptor or memory to send it */
  uint64_t timed_out;      /* calls that gave up waiting for room */
  uint64_t waited;         /* calls that had to wait */
  uint64_t bytes_copied;   /* of tensors that were not in memory of the bus */
  uint64_t bytes_in_flight;
  uint64_t bad_returns; /* invalid leases that subscribers returned */
  uint64_t blocked_ns;  /* how long publishing has waited for `blocked_by` */
  uint64_t cut_off;     /* subscribers cut off after `lag_timeout_ns` */
} tb_publisher_stats;
#define TB_PUBLISHER_STATS_INIT \
  {sizeof(tb_publisher_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
TB_API tb_status tb_publisher_get_stats(const tb_publisher* publisher, tb_publisher_stats* stats);

/* Closes the publisher. Subscribers still get the samples in their queues. A second call does
 * nothing. */
TB_API void tb_publisher_close(tb_publisher* publisher);

/* For tracers (docs/tracing.md): names the samples from which the calling thread makes the samples
 * that it publishes next. Only the first 16 are named. They replace earlier names; a `count` of 0
 * clears them. The samples may be released afterwards. Nothing is sent or kept unless a tracer
 * runs. */
TB_API void tb_name_parents(const tb_sample* const* samples, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif
