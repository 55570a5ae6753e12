/* Receives the samples of every publisher of a topic, in any process of the domain. */
#ifndef TENSORBUS_C_SUBSCRIBER_H
#define TENSORBUS_C_SUBSCRIBER_H

#include <stddef.h>
#include <stdint.h>
#include <tensorbus/c/participant.h>
#include <tensorbus/c/sample.h>
#include <tensorbus/c/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tb_subscriber tb_subscriber;

typedef struct tb_subscriber_options {
  uint32_t struct_size;
  uint32_t depth;      /* samples that may wait for it; 0: the publisher's depth */
  uint32_t max_held;   /* samples of one publisher that may be held at once */
  int32_t access;      /* TB_ACCESS_READ, _PRIVATE or _SHARED */
  int64_t spin_ns;     /* how long receiving polls before it sleeps; see docs/topics.md */
  const char* type;    /* the definition of the expected type (docs/messages.md); NULL: any */
  int32_t pin;         /* 1: pins received host memory for GPUs */
  int32_t restores;    /* 1: copies tensors of a GPU that this process cannot use to `device` */
  int32_t device;      /* the ordinal of that GPU; TB_HOST: all GPU tensors arrive in host memory */
  int32_t best_effort; /* 1: a reliable publisher drops its oldest sample instead of waiting */
  int32_t end_of_stream; /* 1: receiving returns TB_CLOSED when every connected publisher has closed
                            and none of their samples is left. A publisher that was killed counts as
                            closed only when another has taken its place */
  int32_t reserved;      /* 0 */
  const char* node;      /* its node, for inspections; NULL: none */
} tb_subscriber_options;
#define TB_SUBSCRIBER_OPTIONS_INIT \
  {sizeof(tb_subscriber_options), 0, 256, TB_ACCESS_READ, 5000, NULL, 0, 0, 0, 0, 0, 0, NULL}

/* Returns TB_ERROR_INVALID_ARGUMENT for an empty topic, or if `type` is not a definition;
 * TB_ERROR_UNSUPPORTED if memory cannot be pinned here. */
TB_API tb_status tb_subscriber_create(tb_participant* participant, const char* topic,
                                      const tb_subscriber_options* options,
                                      tb_subscriber** subscriber);
/* Closes it; samples stay valid. */
TB_API void tb_subscriber_destroy(tb_subscriber* subscriber);

/* Receives the next sample. Returns TB_TIMED_OUT, TB_INTERRUPTED, TB_CLOSED, TB_HOLD_LIMIT;
 * TB_ERROR_OUT_OF_MEMORY (nothing is lost: the next call tries again); TB_ERROR_TYPE_MISMATCH (a
 * publisher refused this subscriber; reported once for each publisher). TB_NOW: does not wait. */
TB_API tb_status tb_subscriber_receive(tb_subscriber* subscriber, int64_t timeout_ns,
                                       const tb_give_up* give_up, tb_sample** sample);

/* Receives at most `capacity` samples. Waits as above for the first sample, then takes the samples
 * that are already available. The first `*count` of `samples` belong to the caller, also if the
 * call fails; TB_OK means at least one. If another status follows the first sample, the next call
 * returns it. This is faster for many small messages, because it takes its locks, and notifies the
 * publishers, once for all samples.
 *
 *   tb_sample* samples[64];
 *   size_t count;
 *   while (tb_subscriber_receive_many(subscriber, samples, 64, 1000000000, NULL, &count) == TB_OK)
 *     for (size_t i = 0; i < count; ++i) use_and_release(samples[i]);
 *
 * Returns the same statuses; TB_ERROR_INVALID_ARGUMENT for a capacity of 0. */
TB_API tb_status tb_subscriber_receive_many(tb_subscriber* subscriber, tb_sample** samples,
                                            size_t capacity, int64_t timeout_ns,
                                            const tb_give_up* give_up, size_t* count);

/* Receives messages of one tensor into the rows of an array. Waits as above for the first message,
 * then takes the messages that are already available, at most one for each row. Copies each into
 * the next row, and releases it at once. `layout` describes the array at `rows`, which must be
 * contiguous; its first dimension is the number of rows. The first `*count` rows are new, also if
 * the call fails. This is faster for many small messages, because it makes no samples.
 *
 * Returns the same statuses; TB_ERROR_INVALID_ARGUMENT if the next message is not a tensor with the
 * dtype and shape of a row; tb_subscriber_receive() then returns that message. */
TB_API tb_status tb_subscriber_receive_into(tb_subscriber* subscriber, void* rows,
                                            const tb_layout* layout, int64_t timeout_ns,
                                            const tb_give_up* give_up, size_t* count);

/* 1 if receiving would not wait. Takes no sample. */
TB_API int32_t tb_subscriber_ready(tb_subscriber* subscriber);
/* For poll() and event loops: a descriptor, owned by the subscriber, that is readable when
 * receiving may find something. To re-arm it, receive with TB_NOW until TB_TIMED_OUT. */
TB_API tb_status tb_subscriber_event_descriptor(tb_subscriber* subscriber, int* descriptor);

/* Waits for `count` publishers. Returns TB_TIMED_OUT, TB_INTERRUPTED, TB_CLOSED. */
TB_API tb_status tb_subscriber_wait_for_publishers(tb_subscriber* subscriber, uint32_t count,
                                                   int64_t timeout_ns);

typedef struct tb_subscriber_stats {
  uint32_t struct_size;
  uint32_t publishers;
  uint32_t held;    /* samples whose memory this process still uses */
  uint32_t cut_off; /* how often a publisher cut it off (`lag_timeout_ns`) */
  uint64_t received;
  uint64_t missed;  /* gaps in the publishers' sequences */
  uint64_t bad;     /* samples with an invalid descriptor */
  uint64_t gone;    /* passed-on samples whose owner was gone, or had freed the memory */
  uint64_t staged;  /* samples that came from a GPU through host memory */
  uint64_t refused; /* publishers that were not connected */
} tb_subscriber_stats;
#define TB_SUBSCRIBER_STATS_INIT {sizeof(tb_subscriber_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0}
TB_API tb_status tb_subscriber_get_stats(const tb_subscriber* subscriber,
                                         tb_subscriber_stats* stats);
/* Why the last publisher was not connected, cut to `bytes` with the terminating zero; "" if none
 * was refused. */
TB_API tb_status tb_subscriber_last_refusal(const tb_subscriber* subscriber, char* text,
                                            size_t bytes);

/* Closes the subscriber. Waiting calls return TB_CLOSED. A second call does nothing. */
TB_API void tb_subscriber_close(tb_subscriber* subscriber);

#ifdef __cplusplus
}
#endif

#endif
