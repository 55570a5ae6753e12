/* This process on a domain. */
#ifndef TENSORBUS_C_PARTICIPANT_H
#define TENSORBUS_C_PARTICIPANT_H

#include <stddef.h>
#include <stdint.h>
#include <tensorbus/c/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A process is one participant of a domain, which its publishers, subscribers and queues share:
 * where a function takes a participant, NULL is the one that the process shares on the default
 * domain, made when it is first needed. Its memory lives as long as anything that was made of it.
 */
typedef struct tb_participant tb_participant;

typedef struct tb_participant_options {
  uint32_t struct_size;
  int32_t shared;        /* 1: the one that the process shares on this domain; options other
                            than the domain count when that is made. 0: one of its own */
  const char* domain;    /* a path if it has a slash, else a name beside the default domain;
                            NULL: $TENSORBUS_DOMAIN, else "default" */
  uint64_t budget_bytes; /* of shared memory. 0: $TENSORBUS_BUDGET, else 3/4 of the machine's */
  uint64_t cuda_budget_bytes; /* of each GPU's. 0: $TENSORBUS_CUDA_BUDGET, else half of it */
  uint64_t warm_bytes;        /* of freed memory that is kept for the next loan. 0: 256 MiB */
  uint64_t segment_bytes;     /* of one segment, unless a tensor is larger. 0: 64 MiB */
} tb_participant_options;
#define TB_PARTICIPANT_OPTIONS_INIT {sizeof(tb_participant_options), 0, NULL, 0, 0, 0, 0}

/* TB_ERROR_PERMISSION: the domain's directory is not safe to use. */
TB_API tb_status tb_participant_create(const tb_participant_options* options,
                                       tb_participant** participant);
/* What was made of it lives on. */
TB_API void tb_participant_destroy(tb_participant* participant);

/* 16 random bytes, which name it. */
TB_API tb_status tb_participant_id(const tb_participant* participant, uint8_t id[16]);
/* As a text of at most `bytes` with its end. TB_ERROR_INVALID_ARGUMENT: there is not enough room.
 */
TB_API tb_status tb_participant_domain(const tb_participant* participant, char* path, size_t bytes);

typedef struct tb_arena_use {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t segments;
  uint64_t blocks;
  uint64_t used_bytes;     /* in loans and samples that somebody still needs */
  uint64_t reserved_bytes; /* taken from the machine: used, or kept warm */
  uint64_t budget_bytes;
  uint64_t inherited_bytes; /* of used_bytes: nobody but forked children may use them any more */
  /* Of the whole process, on any device: */
  uint64_t inherited_leases; /* of others' memory, that nobody but forked children may use */
  uint64_t forked_children;  /* forks of which a child lives that may use any of this */
  uint64_t unwatched_forks;  /* no descriptor to see their ends: what they inherited stays */
} tb_arena_use;
#define TB_ARENA_USE_INIT {sizeof(tb_arena_use), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* Its memory on a device. */
TB_API tb_status tb_participant_arena(const tb_participant* participant, int32_t device,
                                      tb_arena_use* use);

#ifdef __cplusplus
}
#endif

#endif
