/* Publishes a recording. Details: docs/recording.md. */
#ifndef TENSORBUS_C_PLAYER_H
#define TENSORBUS_C_PLAYER_H

#include <stddef.h>
#include <stdint.h>
#include <tensorbus/c/recording.h>
#include <tensorbus/c/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A player has a participant of its own and one thread. Its publishers have the options of the
 * recorded publishers. They lend the tensors in the mapped file by reference. */
typedef struct tb_player tb_player;

typedef struct tb_player_options {
  uint32_t struct_size;
  int32_t loop;              /* 1: begins again after the last message */
  const char* const* topics; /* `topic_count` recorded names; none: all */
  size_t topic_count;
  const char* const* renamed;   /* `renamed_count` recorded names ... */
  const char* const* new_names; /* ... and the names under which they are published */
  size_t renamed_count;
  double rate;        /* speed: recorded seconds per second */
  uint64_t begin_ns;  /* plays messages recorded from this time on, ns since 1970, */
  uint64_t end_ns;    /* and before this time */
  int32_t paused;     /* 1: starts paused */
  int32_t restores;   /* 1: copies tensors that were published on a GPU to `device` */
  int32_t device;     /* the ordinal of that GPU */
  int32_t reserved;   /* 0 */
  const char* clock;  /* topic for the recorded time, in place of one recorded there; NULL: none */
  const char* domain; /* NULL: the default */
} tb_player_options;
#define TB_PLAYER_OPTIONS_INIT \
  {sizeof(tb_player_options), 0, NULL, 0, NULL, NULL, 0, 1.0, 0, UINT64_MAX, 0, 0, 0, 0, NULL, NULL}

/* Makes the publishers and starts, unless paused. The recording may then be destroyed. Returns
 * TB_ERROR_INVALID_ARGUMENT for an invalid option or recorded type, which the message names;
 * TB_ERROR_UNSUPPORTED for a device that cannot be used here; and the errors of
 * tb_publisher_create(). */
TB_API tb_status tb_player_create(const tb_recording* recording, const tb_player_options* options,
                                  tb_player** player);
/* Closes the player; its error is lost. */
TB_API void tb_player_destroy(tb_player* player);
/* Ends playing and closes the publishers. Samples stay valid. Returns the error that ended playing,
 * e.g. no memory; a second call does nothing. */
TB_API tb_status tb_player_close(tb_player* player);

/* Stops before the next message. */
TB_API tb_status tb_player_pause(tb_player* player);
TB_API tb_status tb_player_resume(tb_player* player);
/* Pauses, and publishes `count` messages at once. */
TB_API tb_status tb_player_step(tb_player* player, uint64_t count);
/* Returns TB_ERROR_INVALID_ARGUMENT unless the rate is above 0. */
TB_API tb_status tb_player_set_rate(tb_player* player, double rate);
/* Waits until each topic has a subscriber. Returns TB_TIMED_OUT, TB_INTERRUPTED. */
TB_API tb_status tb_player_wait_for_subscribers(tb_player* player, int64_t timeout_ns,
                                                const tb_give_up* give_up);
/* Waits until all messages were published or playing has failed. Returns TB_TIMED_OUT,
 * TB_INTERRUPTED. */
TB_API tb_status tb_player_wait(tb_player* player, int64_t timeout_ns, const tb_give_up* give_up);

typedef struct tb_player_stats {
  uint32_t struct_size;
  int32_t paused;
  int32_t ended; /* 1: everything was published, or playing has failed */
  uint32_t reserved;
  uint64_t messages;     /* published */
  uint64_t left;         /* to be published, in the present loop */
  uint64_t loops;        /* finished */
  uint64_t unreadable;   /* left out, because they are damaged */
  uint64_t bytes_copied; /* of tensors: not aligned in the file, or compressed */
  uint64_t position_ns;  /* recorded time, ns since 1970 */
  uint64_t latest_ns;    /* the largest delay of a message */
  uint64_t late_ns;      /* the sum of all delays */
  double rate;
} tb_player_stats;
#define TB_PLAYER_STATS_INIT {sizeof(tb_player_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
TB_API tb_status tb_player_get_stats(const tb_player* player, tb_player_stats* stats);
/* The error of the first message that could not be read, or that ended playing, cut to `bytes` with
 * the terminating zero; "": none. */
TB_API tb_status tb_player_last_error(const tb_player* player, char* text, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
