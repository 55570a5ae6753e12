/* Items from any process of the domain to any other, each to exactly one. */
#ifndef TENSORBUS_C_QUEUE_H
#define TENSORBUS_C_QUEUE_H

#include <stddef.h>
#include <stdint.h>
#include <tensorbus/c/participant.h>
#include <tensorbus/c/sample.h>
#include <tensorbus/c/status.h>
#include <tensorbus/c/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* It lives in the participant that made it; when that is gone, everybody gets TB_CLOSED. Tensors go
 * by reference: neither who put them nor the queue's process is needed once an item was got. */
typedef struct tb_queue tb_queue;

typedef struct tb_queue_options {
  uint32_t struct_size;
  uint32_t maxsize;  /* items that wait; 0: no limit */
  int32_t redeliver; /* 1: an item in the hands of a process that dies, for which it has not called
                        tb_queue_task_done(), goes back. 0: it counts as lost */
  int32_t shared;    /* 1: who gets an item may write to its tensors, for all who have them */
  const char* name;  /* by which others find it; NULL: by its address alone */
} tb_queue_options;
#define TB_QUEUE_OPTIONS_INIT {sizeof(tb_queue_options), 0, 0, 0, NULL}

TB_API tb_status tb_queue_create(tb_participant* participant, const tb_queue_options* options,
                                 tb_queue** queue);
/* By its address, or by its name, which may come later than we do. TB_ERROR_CLOSED: its process is
 * gone; TB_ERROR_INVALID_ARGUMENT: an address that makes no sense; TB_ERROR_TIMEOUT. */
TB_API tb_status tb_queue_open(tb_participant* participant, const char* address_or_name,
                               int64_t timeout_ns, const tb_give_up* give_up, tb_queue** queue);
/* By its address, and asks nobody: its process may be stopped, or gone, which the first call that
 * needs it finds out. `options`: those of its maker; `shared` must be the same, or tensors are
 * refused. TB_ERROR_INVALID_ARGUMENT: the text is no address. */
TB_API tb_status tb_queue_at(tb_participant* participant, const char* address,
                             const tb_queue_options* options, tb_queue** queue);
/* Closes it if it was made here. */
TB_API void tb_queue_destroy(tb_queue* queue);

/* One line of text, for any means to carry; valid as long as the queue. */
TB_API const char* tb_queue_address(const tb_queue* queue);
/* As far as they are known here; the name is valid as long as the queue, "" for none. */
TB_API tb_status tb_queue_get_options(const tb_queue* queue, tb_queue_options* options);
/* 1: it lives in this participant. */
TB_API int32_t tb_queue_made_here(const tb_queue* queue);

/* TB_TIMED_OUT: there was no room, and nothing was put; TB_INTERRUPTED: the same; TB_CLOSED.
 * TB_ERROR_TIMEOUT: the queue's process does not say whether the item is in it. */
TB_API tb_status tb_queue_put(tb_queue* queue, const tb_message* item, int64_t timeout_ns,
                              const tb_give_up* give_up);
/* TB_TIMED_OUT, TB_INTERRUPTED, TB_CLOSED. */
TB_API tb_status tb_queue_get(tb_queue* queue, int64_t timeout_ns, const tb_give_up* give_up,
                              tb_sample** item);

/* Of the oldest item that this process got. TB_ERROR_INVALID_ARGUMENT: there were fewer;
 * TB_ERROR_CLOSED; TB_ERROR_TIMEOUT: the queue's process does not answer. */
TB_API tb_status tb_queue_task_done(tb_queue* queue, const tb_give_up* give_up);
/* Until every item that was put was done. TB_TIMED_OUT, TB_INTERRUPTED, TB_CLOSED. */
TB_API tb_status tb_queue_join(tb_queue* queue, int64_t timeout_ns, const tb_give_up* give_up);

typedef struct tb_queue_stats {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t items;      /* that wait */
  uint64_t unfinished; /* put, and not done */
  uint64_t lost;       /* in the hands of processes that died */
} tb_queue_stats;
#define TB_QUEUE_STATS_INIT {sizeof(tb_queue_stats), 0, 0, 0, 0}
/* TB_ERROR_CLOSED; TB_ERROR_TIMEOUT. */
TB_API tb_status tb_queue_get_stats(const tb_queue* queue, const tb_give_up* give_up,
                                    tb_queue_stats* stats);

/* For everybody: items that wait are dropped. */
TB_API tb_status tb_queue_close(tb_queue* queue, const tb_give_up* give_up);

/* A request that is under way, for an event loop. */
typedef struct tb_pending tb_pending;
TB_API tb_status tb_queue_start_put(tb_queue* queue, const tb_message* item, tb_pending** pending);
TB_API tb_status tb_queue_start_get(tb_queue* queue, tb_pending** pending);
TB_API tb_status tb_queue_start_join(tb_queue* queue, tb_pending** pending);
/* Gives it up if it is under way still: an item that was on its way goes back. */
TB_API void tb_pending_destroy(tb_pending* pending);
/* Readable when it is done; its own. */
TB_API int tb_pending_descriptor(const tb_pending* pending);
/* What the call would have said, once; TB_TIMED_OUT: not yet. `item`: of a get, else NULL. */
TB_API tb_status tb_pending_take(tb_pending* pending, tb_sample** item);

#ifdef __cplusplus
}
#endif

#endif
