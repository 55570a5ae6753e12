/* Records topics to a file, and reads recordings. Details: docs/recording.md. */
#ifndef TENSORBUS_C_RECORDING_H
#define TENSORBUS_C_RECORDING_H

#include <stddef.h>
#include <stdint.h>
#include <tensorbus/c/sample.h>
#include <tensorbus/c/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A recorder has a participant of its own and two threads: one receives, the other writes. */
typedef struct tb_recorder tb_recorder;

typedef struct tb_recorder_options {
  uint32_t struct_size;
  uint32_t depth;            /* samples that may wait in each publisher */
  const char* const* topics; /* `topic_count` names */
  size_t topic_count;
  const char* pattern; /* regular expression: every topic whose whole name matches; NULL: none */
  int32_t all;         /* 1: every topic that has a publisher, now or later */
  int32_t reliable;  /* 1: publishers wait for the recorder; else samples are dropped and counted */
  int32_t overwrite; /* 1: replaces an existing file */
  int32_t reserved;  /* 0 */
  uint64_t buffer_bytes; /* limit for samples that wait to be written */
  uint64_t split_bytes;  /* starts a new file before one exceeds this size; 0: never */
  int64_t split_ns;      /* starts a new file before one exceeds this duration; 0: never */
  int64_t snapshot_ns; /* writes only at tb_recorder_snapshot(): the samples of this long before; 0:
                          writes all */
  const char* compress; /* "zstd" or "lz4", for messages of less than 1 MiB; NULL: none */
  const char* const* compressed_topics; /* `compressed_count` names of topics */
  const char* const* compressions; /* the compression of all messages of each of these topics */
  size_t compressed_count;
  const char* domain; /* NULL: the default */
} tb_recorder_options;
#define TB_RECORDER_OPTIONS_INIT                                     \
  {sizeof(tb_recorder_options), 64, NULL, 0, NULL, 0,    0,    0, 0, \
   UINT64_C(2) << 30,           0,  0,    0, NULL, NULL, NULL, 0, NULL}

/* Makes the file and subscribes. Returns TB_ERROR_INVALID_ARGUMENT if the file exists, or for an
 * option that the message names; TB_ERROR_UNSUPPORTED for a compression without its library;
 * TB_ERROR_PERMISSION, TB_ERROR_OUT_OF_MEMORY, TB_ERROR_SYSTEM. */
TB_API tb_status tb_recorder_create(const char* path, const tb_recorder_options* options,
                                    tb_recorder** recorder);
/* Closes the recorder; its error is lost. */
TB_API void tb_recorder_destroy(tb_recorder* recorder);
/* Writes the messages published before this call, and the end of the file. Returns the error that
 * ended recording early, e.g. a full disk; its message describes what the file contains. A second
 * call does nothing. */
TB_API tb_status tb_recorder_close(tb_recorder* recorder);

/* Writes the kept samples to a new file and continues. `path` gets its path, cut to `bytes` with
 * the terminating zero; it may be NULL if `bytes` is 0. Returns TB_TIMED_OUT or TB_INTERRUPTED (the
 * file will still be written); TB_CLOSED if recording has ended; TB_ERROR_INVALID_ARGUMENT without
 * `snapshot_ns`. */
TB_API tb_status tb_recorder_snapshot(tb_recorder* recorder, int64_t timeout_ns,
                                      const tb_give_up* give_up, char* path, size_t bytes);
/* Waits until an error ends recording early. Returns TB_TIMED_OUT, TB_INTERRUPTED. */
TB_API tb_status tb_recorder_wait(tb_recorder* recorder, int64_t timeout_ns,
                                  const tb_give_up* give_up);

typedef struct tb_recorder_stats {
  uint32_t struct_size;
  uint32_t files;          /* begun */
  uint64_t messages;       /* in the files */
  uint64_t bytes;          /* of the files */
  uint64_t lost;           /* known to be missing in the files */
  uint64_t unwritable;     /* of these: with tensors on a GPU */
  uint64_t buffered_bytes; /* received and not yet written */
  uint32_t topics;
  uint32_t reserved;
} tb_recorder_stats;
#define TB_RECORDER_STATS_INIT {sizeof(tb_recorder_stats), 0, 0, 0, 0, 0, 0, 0, 0}
TB_API tb_status tb_recorder_get_stats(const tb_recorder* recorder, tb_recorder_stats* stats);
/* Why recording ended early, cut to `bytes` with the terminating zero; "": it did not. */
TB_API tb_status tb_recorder_last_error(const tb_recorder* recorder, char* text, size_t bytes);

/* A mapped file that a recorder has written. Immutable; usable in forked children. */
typedef struct tb_recording tb_recording;

/* Opens a file. A file without an index at its end is searched. Returns TB_ERROR_INVALID_ARGUMENT,
 * with the fault in the message, for an invalid file; TB_ERROR_UNSUPPORTED if it must be searched
 * and its compression library is missing; TB_ERROR_PERMISSION, TB_ERROR_OUT_OF_MEMORY,
 * TB_ERROR_SYSTEM. */
TB_API tb_status tb_recording_open(const char* path, tb_recording** recording);
/* Samples stay valid. */
TB_API void tb_recording_destroy(tb_recording* recording);

/* Messages are numbered in the order of their times. */
TB_API uint64_t tb_recording_message_count(const tb_recording* recording);
/* Gets the time at which a message was recorded, ns since 1970. Returns TB_ERROR_INVALID_ARGUMENT
 * if no message has this number. */
TB_API tb_status tb_recording_time(const tb_recording* recording, uint64_t index,
                                   uint64_t* time_ns);
/* Returns a message. Its tensors lie in the mapped file; publishing one lends the file. Tensors of
 * a compressed message lie in memory into which its chunk was unpacked; publishing one copies it.
 * Returns TB_ERROR_INVALID_ARGUMENT if no message has this number, or if it is damaged (the message
 * of the error describes the damage); TB_ERROR_UNSUPPORTED if another program has encoded the
 * message, or its compression library is missing; TB_ERROR_OUT_OF_MEMORY. */
TB_API tb_status tb_recording_get(const tb_recording* recording, uint64_t index,
                                  tb_sample** sample);
/* Finds the messages on these topics (`topic_count` 0: all), recorded from `begin_ns` to before
 * `end_ns`. Writes the first `capacity` of their numbers to `indices`, and their count to `count`.
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
  uint64_t lost;     /* published while recording, but not in the file */
  uint64_t begin_ns; /* time of the first message, ns since 1970; 0: none */
  uint64_t end_ns;   /* time of the last */
} tb_recorded_topic;
#define TB_RECORDED_TOPIC_INIT {sizeof(tb_recorded_topic), 0, NULL, NULL, 0, 0, 0, 0, 0}
TB_API uint32_t tb_recording_topic_count(const tb_recording* recording);
/* Gets a topic; they are sorted by name. Returns TB_ERROR_INVALID_ARGUMENT if none has this number.
 */
TB_API tb_status tb_recording_topic(const tb_recording* recording, uint32_t index,
                                    tb_recorded_topic* topic);

/* Information about the recorder: "version", "host", "domain" or "started"; NULL for another name.
 * Valid as long as the recording, like the next two texts. */
TB_API const char* tb_recording_about(const tb_recording* recording, const char* name);
/* Why the file had to be searched, and where it ends; "": it is complete. */
TB_API const char* tb_recording_recovered(const tb_recording* recording);
/* What could not be read; "": nothing. */
TB_API const char* tb_recording_damage(const tb_recording* recording);
/* Returns TB_ERROR_SYSTEM if the memory does not have the contents of the file; see
 * tb_file_check(). */
TB_API tb_status tb_recording_check(const tb_recording* recording);

#ifdef __cplusplus
}
#endif

#endif
