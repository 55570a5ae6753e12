/* The objects of the participants of a domain, and the processes that hold their memory. */
#ifndef TENSORBUS_C_INSPECTION_H
#define TENSORBUS_C_INSPECTION_H

#include <stddef.h>
#include <stdint.h>
#include <tensorbus/c/publisher.h>
#include <tensorbus/c/queue.h>
#include <tensorbus/c/status.h>
#include <tensorbus/c/subscriber.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The library makes the structs below; programs only read them. Structs with a struct_size may
 * grow: struct_size is the size in the loaded library. A list is an array of pointers to its
 * elements. No text is NULL. */

/* A process at the other end of a connection. This struct does not grow. */
typedef struct tb_peer_name {
  uint32_t pid; /* in the pid namespace of the inspected process; 0: not visible there */
  uint32_t reserved;
  uint8_t participant[16]; /* all zero: unknown */
  const char* process;     /* the name of its program; "": unknown */
} tb_peer_name;

/* One subscriber of a publisher, with the publisher's counters. */
typedef struct tb_link_report {
  uint32_t struct_size;
  uint32_t depth;
  uint32_t max_held;
  int32_t reliable; /* 1: the publisher waits for it */
  tb_peer_name subscriber;
  const char* node;
  uint64_t delivered;     /* samples put into its queue */
  uint32_t waiting;       /* samples in its queue now */
  uint32_t held;          /* received and not released */
  uint64_t held_bytes;    /* of waiting and held samples; others may hold the same bytes */
  int64_t oldest_held_ns; /* age of the oldest of these; 0: there are none */
  uint64_t dropped_depth; /* taken out of its full queue for a newer one */
  uint64_t dropped_held;  /* not queued: it holds as many as it may */
  uint64_t dropped_unsent;
  int64_t blocked_ns; /* how long a waiting publisher has had no room; 0: there is room */
  int32_t cut_off;    /* 1: was cut off after `lag_timeout_ns`, and still holds samples */
  uint32_t reserved;
} tb_link_report;

/* A publisher, its counters and its subscribers. */
typedef struct tb_publisher_report {
  uint32_t struct_size;
  uint32_t number; /* unique in its participant */
  uint32_t depth;
  uint32_t history;
  int32_t reliable;
  int32_t shared;
  int32_t isolated;
  uint32_t reserved;
  const char* topic;
  const char* node;
  const char* type;    /* the definition of its message type; "": any */
  const char* machine; /* for a mirror: the machine of `origin`; "": this machine */
  const char* origin;  /* for a mirror: the publisher that it represents; else "" */
  uint64_t bytes_sent; /* of the tensors and fields of all published samples */
  const tb_publisher_stats* stats;
  size_t link_count;
  const tb_link_report* const* links;
} tb_publisher_report;

/* A subscriber and its counters. */
typedef struct tb_subscriber_report {
  uint32_t struct_size;
  uint32_t depth;
  uint32_t max_held;
  int32_t reliable;
  int32_t access; /* TB_ACCESS_READ, _PRIVATE or _SHARED */
  uint32_t reserved;
  const char* topic;
  const char* node;
  const char* type;
  const char* last_refusal;
  const tb_subscriber_stats* stats;
  size_t publisher_count;
  const char* const* publishers; /* to which it is connected, "<id>.<number>" */
} tb_subscriber_report;

/* A process that uses a queue. */
typedef struct tb_queue_client_report {
  uint32_t struct_size;
  uint32_t waiting_puts;
  uint32_t waiting_gets;
  uint32_t reserved;
  tb_peer_name client;
  uint64_t in_hand; /* items got and not finished; without `redeliver`, until its next get */
} tb_queue_client_report;

/* A queue, with the counters of its process. */
typedef struct tb_queue_report {
  uint32_t struct_size;
  uint32_t maxsize;
  int32_t redeliver;
  int32_t shut_down;
  const char* name;    /* "": it has only an address */
  const char* service; /* the service whose requests it carries; "" if none */
  const char* machine; /* for a mirror: the machine of the queue that it represents; else "" */
  uint64_t number;
  uint64_t max_bytes;
  uint64_t in_hand;     /* of all clients */
  uint64_t redelivered; /* items that came back from processes that died */
  const tb_queue_stats* stats;
  size_t client_count;
  const tb_queue_client_report* const* clients;
} tb_queue_report;

/* A share, with the counters of its process. */
typedef struct tb_share_report {
  uint32_t struct_size;
  uint32_t uses_left; /* how often it can still be attached; 0: any number of times */
  uint64_t number;
  uint64_t bytes;
  int64_t age_ns;
} tb_share_report;

/* Memory that one peer has from this process: through links, queues and shares together. */
typedef struct tb_lent_report {
  uint32_t struct_size;
  uint32_t reserved;
  tb_peer_name peer;
  uint64_t leases;
  uint64_t bytes;
  int64_t oldest_ns; /* age of the oldest sample on links; 0: none */
} tb_lent_report;

/* Memory of one peer that is mapped in this process. */
typedef struct tb_borrowed_report {
  uint32_t struct_size;
  uint32_t reserved;
  tb_peer_name peer;
  uint64_t segments;
  uint64_t bytes;
  uint64_t leases;
} tb_borrowed_report;

/* Memory of a participant on one GPU. */
typedef struct tb_device_report {
  uint32_t struct_size;
  uint32_t reserved;
  const char* device; /* "cuda:0" */
  uint64_t used_bytes;
  uint64_t reserved_bytes;
  uint64_t budget_bytes;
} tb_device_report;

/* The memory of a participant. */
typedef struct tb_memory_report {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t segments;
  uint64_t blocks;
  uint64_t used_bytes;     /* in loans and held samples */
  uint64_t reserved_bytes; /* taken from the machine: used, or kept for reuse */
  uint64_t budget_bytes;
  uint64_t inherited_bytes; /* of used_bytes: kept only for forked children */
  uint64_t private_bytes;   /* copied because the process wrote to received tensors */
  uint64_t file_bytes;      /* of mapped files that were lent */
  size_t lent_count;
  const tb_lent_report* const* lent;
  size_t borrowed_count;
  const tb_borrowed_report* const* borrowed;
  size_t device_count;
  const tb_device_report* const* devices;
} tb_memory_report;

/* The objects that one process has on the bus. */
typedef struct tb_participant_report {
  uint32_t struct_size;
  uint32_t pid; /* in the pid namespace of this process; 0: not visible here */
  uint8_t participant[16];
  const char* process; /* the name of its program */
  const char* error;   /* why it did not reply; "": it replied */
  const char* version; /* of its Tensorbus */
  int64_t age_ns;
  size_t node_count; /* nodes and topics are known even without a reply */
  const char* const* nodes;
  size_t topic_count;
  const char* const* topics; /* that it publishes */
  size_t publisher_count;    /* from here on, 0 or NULL without a reply */
  const tb_publisher_report* const* publishers;
  size_t subscriber_count;
  const tb_subscriber_report* const* subscribers;
  size_t queue_count;
  const tb_queue_report* const* queues;
  size_t share_count;
  const tb_share_report* const* shares;
  const tb_memory_report* memory;
} tb_participant_report;

typedef struct tb_inspection {
  uint32_t struct_size;
  uint32_t reserved;
  const char* domain; /* the path of its directory */
  uint64_t time_ns;   /* when the replies had arrived: nanoseconds since 1970 */
  size_t participant_count;
  const tb_participant_report* const* participants; /* by pid */
} tb_inspection;

/* Inspects all participants of a domain in parallel. They reply with counters that they always
 * keep. A participant that has not replied in time (it may be stopped) is listed with the reason. A
 * participant that has ended is not listed. `domain`: as in tb_participant_options; NULL: the
 * default. A domain that does not exist is not made and has no participants. The caller destroys
 * the result. Returns TB_ERROR_PERMISSION for an unsafe directory. */
TB_API tb_status tb_inspect(const char* domain, int64_t timeout_ns, tb_inspection** inspection);
TB_API void tb_inspection_destroy(tb_inspection* inspection);

#ifdef __cplusplus
}
#endif

#endif
