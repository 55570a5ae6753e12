/* Who is in a domain, as its directory says. */
#ifndef TENSORBUS_C_LISTING_H
#define TENSORBUS_C_LISTING_H

#include <stdint.h>
#include <tensorbus/c/participant.h>
#include <tensorbus/c/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tb_publisher_info {
  uint32_t struct_size;
  uint32_t pid; /* as its process sees it */
  const char* topic;
  const char* node; /* "": of none */
  const char* type; /* the definition of its messages; "": any */
  uint8_t participant[16];
} tb_publisher_info;
typedef struct tb_node_info {
  uint32_t struct_size;
  uint32_t pid;
  const char* name;
  uint8_t participant[16];
} tb_node_info;

/* Each is told of in turn; what it is told is valid for that call. Anything but 0 ends it. */
typedef int (*tb_tell_publisher)(const tb_publisher_info* info, void* context);
typedef int (*tb_tell_node)(const tb_node_info* info, void* context);
TB_API tb_status tb_list_publishers(tb_participant* participant, tb_tell_publisher tell,
                                    void* context);
TB_API tb_status tb_list_nodes(tb_participant* participant, tb_tell_node tell, void* context);

/* Until there is a publisher of the topic, or a node of the name. TB_TIMED_OUT, TB_INTERRUPTED. */
TB_API tb_status tb_wait_for_topic(tb_participant* participant, const char* topic,
                                   int64_t timeout_ns, const tb_give_up* give_up);
TB_API tb_status tb_wait_for_node(tb_participant* participant, const char* name, int64_t timeout_ns,
                                  const tb_give_up* give_up);

/* A node's name in the domain, for as long as it lives. Several may have the same. */
typedef struct tb_node_name tb_node_name;
/* TB_ERROR_INVALID_ARGUMENT: an empty name, or one of more than 2,048 bytes. */
TB_API tb_status tb_node_name_create(tb_participant* participant, const char* name,
                                     tb_node_name** node);
TB_API void tb_node_name_destroy(tb_node_name* node);

#ifdef __cplusplus
}
#endif

#endif
