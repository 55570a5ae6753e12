/* This process on a domain. */
#ifndef TENSORBUS_C_PARTICIPANT_H
#define TENSORBUS_C_PARTICIPANT_H

#include <stddef.h>
#include <stdint.h>
#include <tensorbus/c/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A participant is one process on one domain. Its publishers, subscribers and queues share it.
 * Where a function takes a participant, NULL means the participant that the process shares on the
 * default domain, which the first use makes. Its memory stays as long as any object made with it.
 */
typedef struct tb_participant tb_participant;

typedef struct tb_participant_options {
  uint32_t struct_size;
  int32_t shared; /* 1: the participant that the process shares on this domain; other options count
                     only at its first use. 0: a new one */
  const char* domain; /* a path if it contains a slash, else a name beside the default domain; NULL:
                         $TENSORBUS_DOMAIN, else "default" */
  uint64_t budget_bytes; /* of shared memory. 0: $TENSORBUS_BUDGET, else 3/4 of the machine's */
  uint64_t cuda_budget_bytes; /* of each GPU's memory. 0: $TENSORBUS_CUDA_BUDGET, else half of it */
  uint64_t warm_bytes;        /* freed memory kept for reuse. 0: 256 MiB */
  uint64_t segment_bytes;     /* of one segment, unless a tensor is larger. 0: 64 MiB */
} tb_participant_options;
#define TB_PARTICIPANT_OPTIONS_INIT {sizeof(tb_participant_options), 0, NULL, 0, 0, 0, 0}

/* Returns TB_ERROR_PERMISSION if the domain's directory is unsafe. */
TB_API tb_status tb_participant_create(const tb_participant_options* options,
                                       tb_participant** participant);
/* Objects made with it stay valid. */
TB_API void tb_participant_destroy(tb_participant* participant);

/* The participant's id: 16 random bytes. */
TB_API tb_status tb_participant_id(const tb_participant* participant, uint8_t id[16]);
/* Writes the domain's path with its terminating zero into `bytes` bytes. Returns
 * TB_ERROR_INVALID_ARGUMENT if they are too few. */
TB_API tb_status tb_participant_domain(const tb_participant* participant, char* path, size_t bytes);

typedef struct tb_arena_use {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t segments;
  uint64_t blocks;
  uint64_t used_bytes;     /* in loans and samples that are in use */
  uint64_t reserved_bytes; /* taken from the machine: used, or kept warm */
  uint64_t budget_bytes;
  uint64_t inherited_bytes; /* of used_bytes: kept only for forked children */
  /* For the whole process, on any device: */
  uint64_t inherited_leases; /* leases of other owners' memory, kept only for forked children */
  uint64_t forked_children;  /* forks with a living child that may use any of this */
  uint64_t unwatched_forks;  /* forks that cannot be watched: what they inherited is kept */
} tb_arena_use;
#define TB_ARENA_USE_INIT {sizeof(tb_arena_use), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* Gets the use of its memory on a device. */
TB_API tb_status tb_participant_arena(const tb_participant* participant, int32_t device,
                                      tb_arena_use* use);

#ifdef __cplusplus
}
#endif

#endif
