/* Topics to a file, and what is in one. Details: docs/recording.md. */
#ifndef TENSORBUS_C_RECORDING_H
#define TENSORBUS_C_RECORDING_H

#include <stddef.h>
#include <stdint.h>
#include <tensorbus/c/sample.h>
#include <tensorbus/c/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A participant of its own, with two threads: one receives, the other one writes. */
typedef struct tb_recorder tb_recorder;

typedef struct tb_recorder_options {
  uint32_t struct_size;
  uint32_t depth;            /* samples that may wait in each publisher, until they are taken */
  const char* const* topics; /* `topic_count` names */
  size_t topic_count;
  const char* pattern;   /* every topic whose whole name matches it; NULL: none */
  int32_t all;           /* 1: every topic that has a publisher, now or later */
  int32_t reliable;      /* 1: publishers wait for the recorder; else it drops, and counts */
  int32_t overwrite;     /* 1: replaces the file; else it must not exist */
  int32_t reserved;      /* 0 */
  uint64_t buffer_bytes; /* that may wait to be written */
  uint64_t split_bytes;  /* begins another file before one would be larger; 0: never */
  int64_t split_ns;      /* the same of one that would be longer */
  int64_t snapshot_ns;   /* writes nothing until tb_recorder_snapshot(), and then the samples of
                            so long a time before; 0: writes all */
  const char* compress;  /* "zstd", "lz4": messages of less than 1 MiB; NULL: none */
  const char* const* compressed_topics; /* `compressed_count` names of topics */
  const char* const* compressions;      /* how all messages of each of these are compressed */
  size_t compressed_count;
  const char* domain; /* NULL: the default */
} tb_recorder_options;
#define TB_RECORDER_OPTIONS_INIT                                     \
  {sizeof(tb_recorder_options), 64, NULL, 0, NULL, 0,    0,    0, 0, \
   UINT64_C(2) << 30,           0,  0,    0, NULL, NULL, NULL, 0, NULL}

/* Makes the file and subscribes. Returns TB_ERROR_INVALID_ARGUMENT if it exists, or for an option
 * that the message names; TB_ERROR_UNSUPPORTED for a compression whose library is not there;
 * TB_ERROR_PERMISSION, TB_ERROR_OUT_OF_MEMORY, TB_ERROR_SYSTEM. */
TB_API tb_status tb_recorder_create(const char* path, const tb_recorder_options* options,
                                    tb_recorder** recorder);
/* Closes it, without its error. */
TB_API void tb_recorder_destroy(tb_recorder* recorder);
/* Writes what was published before this call, and the end of the file. Returns the error for which
 * recording has ended by itself, as on a full disk: the message says what is in the file. The second
 * call does nothing. */
TB_API tb_status tb_recorder_close(tb_recorder* recorder);

/* Writes what was kept to a file of its own, and goes on; its path, cut to `bytes` with the
 * terminating zero. `bytes` of 0: `path` may be NULL. Returns TB_TIMED_OUT, TB_INTERRUPTED (it
 * still will be written), TB_CLOSED if recording has ended; TB_ERROR_INVALID_ARGUMENT without
 * `snapshot_ns`. */
TB_API tb_status tb_recorder_snapshot(tb_recorder* recorder, int64_t timeout_ns,
                                      const tb_give_up* give_up, char* path, size_t bytes);
/* Waits until recording has ended by itself. Returns TB_TIMED_OUT, TB_INTERRUPTED. */
TB_API tb_status tb_recorder_wait(tb_recorder* recorder, int64_t timeout_ns,
                                  const tb_give_up* give_up);

typedef struct tb_recorder_stats {
  uint32_t struct_size;
  uint32_t files;          /* that were begun */
  uint64_t messages;       /* in the files */
  uint64_t bytes;          /* of the files */
  uint64_t lost;           /* known to be missing there */
  uint64_t unwritable;     /* among the lost: with tensors on a GPU */
  uint64_t buffered_bytes; /* received, and not yet written */
  uint32_t topics;
  uint32_t reserved;
} tb_recorder_stats;
#define TB_RECORDER_STATS_INIT {sizeof(tb_recorder_stats), 0, 0, 0, 0, 0, 0, 0, 0}
TB_API tb_status tb_recorder_get_stats(const tb_recorder* recorder, tb_recorder_stats* stats);
/* Why recording has ended by itself, cut to `bytes` with the terminating zero; "": it has not. */
TB_API tb_status tb_recorder_last_error(const tb_recorder* recorder, char* text, size_t bytes);

/* A file that a recorder has written, mapped. It does not change, and may be used in forked
 * children, too. */
typedef struct tb_recording tb_recording;

/* Opens a file; one without an index at its end is searched. Returns TB_ERROR_INVALID_ARGUMENT that
 * says what is wrong in the file; TB_ERROR_UNSUPPORTED if it is searched, and the library of its
 * compression is not there; TB_ERROR_PERMISSION, TB_ERROR_OUT_OF_MEMORY, TB_ERROR_SYSTEM. */
TB_API tb_status tb_recording_open(const char* path, tb_recording** recording);
/* Samples stay valid. */
TB_API void tb_recording_destroy(tb_recording* recording);

/* The messages are numbered in the order of time. */
TB_API uint64_t tb_recording_message_count(const tb_recording* recording);
/* When a message was recorded, ns since 1970. Returns TB_ERROR_INVALID_ARGUMENT if there is none of
 * this number. */
TB_API tb_status tb_recording_time(const tb_recording* recording, uint64_t index,
                                   uint64_t* time_ns);
/* A message, whose tensors lie in the mapped file: publishing one lends the file. Those of a
 * compressed message lie in memory, to which its chunk is unpacked: publishing one copies it.
 * Returns TB_ERROR_INVALID_ARGUMENT that says what of it is damaged; TB_ERROR_UNSUPPORTED if
 * another program has encoded it, or if the library of its compression is not there;
 * TB_ERROR_OUT_OF_MEMORY. */
TB_API tb_status tb_recording_get(const tb_recording* recording, uint64_t index,
                                  tb_sample** sample);
/* The numbers of the messages on these topics (`topic_count` of 0: all), recorded from `begin_ns`
 * to before `end_ns`: the first `capacity` of them to `indices`, and to `count` how many there are.
 */
TB_API tb_status tb_recording_select(const tb_recording* recording, const char* const* topics,
                                     size_t topic_count, uint64_t begin_ns, uint64_t end_ns,
                                     uint32_t* indices, size_t capacity, size_t* count);

/* A topic. The texts are valid as long as the recording. */
typedef struct tb_recorded_topic {
  uint32_t struct_size;
  uint32_t publishers;
  const char* name;
  const char* const* types; /* `type_count` definitions, or names of foreign schemas; none: any */
  size_t type_count;
  uint64_t messages;
  uint64_t lost;     /* published while it was recorded, and not in the file */
  uint64_t begin_ns; /* when the first message was recorded, ns since 1970; 0: there is none */
  uint64_t end_ns;   /* the same of the last */
} tb_recorded_topic;
#define TB_RECORDED_TOPIC_INIT {sizeof(tb_recorded_topic), 0, NULL, NULL, 0, 0, 0, 0, 0}
TB_API uint32_t tb_recording_topic_count(const tb_recording* recording);
/* Returns TB_ERROR_INVALID_ARGUMENT if there is none of this number; they are in the order of their
 * names. */
TB_API tb_status tb_recording_topic(const tb_recording* recording, uint32_t index,
                                    tb_recorded_topic* topic);

/* What the recorder says of itself: "version", "host", "domain", "started"; NULL: nothing of this
 * name. Valid as long as the recording, as are the next two. */
TB_API const char* tb_recording_about(const tb_recording* recording, const char* name);
/* Why the file had to be searched, and where it ends; "": it is whole. */
TB_API const char* tb_recording_recovered(const tb_recording* recording);
/* What of the file could not be read; "": nothing. */
TB_API const char* tb_recording_damage(const tb_recording* recording);
/* Returns TB_ERROR_SYSTEM if the memory is not what the file holds, as tb_file_check(). */
TB_API tb_status tb_recording_check(const tb_recording* recording);

#ifdef __cplusplus
}
#endif

#endif
