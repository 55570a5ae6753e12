/* Passes items between all processes of a domain, each item to exactly one process. */
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

/* The participant that made a queue holds it; when this participant ends, all calls return
 * TB_CLOSED. Tensors are passed by reference: after a get, neither the process that put the item
 * nor the queue's process is needed. */
typedef struct tb_queue tb_queue;

typedef struct tb_queue_options {
  uint32_t struct_size;
  uint32_t maxsize;   /* items that may wait; 0: no limit */
  int32_t redeliver;  /* 1: an item goes back into the queue if the process that got it dies before
                         tb_queue_task_done(). 0: it counts as lost */
  int32_t shared;     /* 1: a process that gets an item may write to it, for all holders */
  const char* name;   /* the name for other processes; NULL: only an address */
  uint64_t max_bytes; /* limit for tensors and fields of waiting items; 0: none */
  int32_t pin;        /* 1: pins the host memory of the items that this object gets, for GPUs */
  int32_t reserved;   /* 0 */
} tb_queue_options;
#define TB_QUEUE_OPTIONS_INIT {sizeof(tb_queue_options), 0, 0, 0, NULL, 0, 0, 0}

/* Makes a queue. Returns TB_ERROR_INVALID_ARGUMENT if a queue of this name exists; the message
 * names its process. Returns TB_ERROR_UNSUPPORTED for `pin` if memory cannot be pinned here. */
TB_API tb_status tb_queue_create(tb_participant* participant, const tb_queue_options* options,
                                 tb_queue** queue);
/* Opens a queue by its address or its name. Waits until a queue has this name. Returns
 * TB_ERROR_TIMEOUT; for an address also TB_ERROR_CLOSED if its process is gone, and
 * TB_ERROR_INVALID_ARGUMENT if the address is invalid. */
TB_API tb_status tb_queue_open(tb_participant* participant, const char* address_or_name,
                               int64_t timeout_ns, const tb_give_up* give_up, tb_queue** queue);
/* Makes a handle of the queue with this address. It sends no request: if the queue's process is
 * stopped or gone, the first call that needs the process reports it. `options` are the options with
 * which the queue was made. `shared` must be the same, or tensors are refused. Returns
 * TB_ERROR_INVALID_ARGUMENT for an invalid address. */
TB_API tb_status tb_queue_at(tb_participant* participant, const char* address,
                             const tb_queue_options* options, tb_queue** queue);
/* Pins the host memory of the items that this object gets later, like the option `pin`: for an
 * object of tb_queue_open(). No other thread may get an item meanwhile. Returns
 * TB_ERROR_UNSUPPORTED if memory cannot be pinned here. */
TB_API tb_status tb_queue_pin(tb_queue* queue);
/* Closes the queue if this object made it. */
TB_API void tb_queue_destroy(tb_queue* queue);

/* One line of text, which any channel can carry; valid as long as the queue. */
TB_API const char* tb_queue_address(const tb_queue* queue);
/* Gets the options, as far as this object has them. The name is valid as long as the queue; "" for
 * none. */
TB_API tb_status tb_queue_get_options(const tb_queue* queue, tb_queue_options* options);
/* 1 if this object made the queue. */
TB_API int32_t tb_queue_made_here(const tb_queue* queue);

/* Puts an item. Returns TB_TIMED_OUT or TB_INTERRUPTED if there was no room (nothing was put);
 * TB_SHUT_DOWN; TB_CLOSED; TB_ERROR_TIMEOUT if the queue's process did not reply: the item may be
 * in the queue; TB_ERROR_INVALID_ARGUMENT for an item larger than max_bytes. With a timeout other
 * than TB_FOREVER it also waits until enough memory is released. Returns TB_ERROR_OUT_OF_MEMORY
 * after that time, and at once with TB_FOREVER. */
TB_API tb_status tb_queue_put(tb_queue* queue, const tb_message* item, int64_t timeout_ns,
                              const tb_give_up* give_up);
/* Puts an item without tensors if that needs no waiting and no request to another process. Returns
 * TB_TIMED_OUT if it was not put. */
TB_API tb_status tb_queue_put_now(tb_queue* queue, const tb_message* item);
/* Gets an item. Returns TB_TIMED_OUT, TB_INTERRUPTED, TB_SHUT_DOWN, TB_CLOSED. */
TB_API tb_status tb_queue_get(tb_queue* queue, int64_t timeout_ns, const tb_give_up* give_up,
                              tb_sample** item);

/* Marks the oldest item that this process got as done. Returns TB_ERROR_INVALID_ARGUMENT if there
 * is none; TB_ERROR_CLOSED; TB_ERROR_TIMEOUT if the queue's process does not reply. */
TB_API tb_status tb_queue_task_done(tb_queue* queue, const tb_give_up* give_up);
/* Waits until all items are done. Returns TB_TIMED_OUT, TB_INTERRUPTED, TB_CLOSED. */
TB_API tb_status tb_queue_join(tb_queue* queue, int64_t timeout_ns, const tb_give_up* give_up);

typedef struct tb_queue_stats {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t items;      /* waiting */
  uint64_t unfinished; /* put and not done */
  uint64_t lost;       /* got by processes that died, or in memory that could not be mapped */
  uint64_t bytes;      /* of waiting items */
} tb_queue_stats;
#define TB_QUEUE_STATS_INIT {sizeof(tb_queue_stats), 0, 0, 0, 0, 0}
/* Returns TB_ERROR_CLOSED; TB_ERROR_TIMEOUT. */
TB_API tb_status tb_queue_get_stats(const tb_queue* queue, const tb_give_up* give_up,
                                    tb_queue_stats* stats);

/* Shuts the queue down for all processes: from now on a put returns TB_SHUT_DOWN, and so does a get
 * when no item is left. `immediate` 1: waiting items are dropped and count as done. Returns
 * TB_ERROR_CLOSED; TB_ERROR_TIMEOUT. */
TB_API tb_status tb_queue_shutdown(tb_queue* queue, int32_t immediate, const tb_give_up* give_up);
/* Waits until the queue has no waiting item, so that closing it drops none. With `redeliver`, items
 * that other processes have got must also be done. Returns TB_TIMED_OUT, TB_INTERRUPTED, TB_CLOSED.
 */
TB_API tb_status tb_queue_drain(tb_queue* queue, int64_t timeout_ns, const tb_give_up* give_up);
/* Closes the queue for all processes. Waiting items are dropped: see tb_queue_drain(). */
TB_API tb_status tb_queue_close(tb_queue* queue, const tb_give_up* give_up);

/* A request for event loops. */
typedef struct tb_pending tb_pending;
TB_API tb_status tb_queue_start_put(tb_queue* queue, const tb_message* item, tb_pending** pending);
TB_API tb_status tb_queue_start_get(tb_queue* queue, tb_pending** pending);
TB_API tb_status tb_queue_start_join(tb_queue* queue, tb_pending** pending);
/* Like tb_queue_get(), but also returns TB_CLOSED when the request `unanswered` (a put or a join)
 * is finished. */
TB_API tb_status tb_queue_get_while(tb_queue* queue, const tb_pending* unanswered,
                                    int64_t timeout_ns, const tb_give_up* give_up,
                                    tb_sample** item);
/* Cancels the request if it is not finished; an item that is on its way then goes back into the
 * queue. */
TB_API void tb_pending_destroy(tb_pending* pending);
/* A descriptor, owned by the request, that is readable when the request is finished. */
TB_API int tb_pending_descriptor(const tb_pending* pending);
/* Returns the status of the call, once; TB_TIMED_OUT if it is not finished. `item`: the item of a
 * get, else NULL. */
TB_API tb_status tb_pending_take(tb_pending* pending, tb_sample** item);

#ifdef __cplusplus
}
#endif

#endif
