/* The participants of a domain, as its directory lists them. */
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
  uint32_t pid; /* in the pid namespace of its process */
  const char* topic;
  const char* node; /* "": no node */
  const char* type; /* the definition of its message type; "": any */
  uint8_t participant[16];
  uint32_t number; /* unique in its participant */
  uint32_t depth;
  uint32_t history;
  uint32_t reliable;   /* 1: it drops nothing */
  const char* machine; /* for a mirror: the machine of `origin`; "": this machine */
  const char* origin;  /* for a mirror: the publisher that it represents; else "" */
} tb_publisher_info;
typedef struct tb_node_info {
  uint32_t struct_size;
  uint32_t pid;
  const char* name;
  uint8_t participant[16];
  const char* machine; /* its machine; "": this machine */
} tb_node_info;

/* The listing functions call `tell` for each publisher or node. `info` is valid during that call. A
 * result other than 0 ends the listing. */
typedef int (*tb_tell_publisher)(const tb_publisher_info* info, void* context);
typedef int (*tb_tell_node)(const tb_node_info* info, void* context);
TB_API tb_status tb_list_publishers(tb_participant* participant, tb_tell_publisher tell,
                                    void* context);
TB_API tb_status tb_list_nodes(tb_participant* participant, tb_tell_node tell, void* context);

/* Wait until the topic has a publisher, or a node has the name. Return TB_TIMED_OUT,
 * TB_INTERRUPTED. */
TB_API tb_status tb_wait_for_topic(tb_participant* participant, const char* topic,
                                   int64_t timeout_ns, const tb_give_up* give_up);
TB_API tb_status tb_wait_for_node(tb_participant* participant, const char* name, int64_t timeout_ns,
                                  const tb_give_up* give_up);

/* Lists a node's name in the domain while this object exists. Several nodes may have the same name.
 */
typedef struct tb_node_name tb_node_name;
/* Returns TB_ERROR_INVALID_ARGUMENT for an empty name or one of more than 2,048 bytes. */
TB_API tb_status tb_node_name_create(tb_participant* participant, const char* name,
                                     tb_node_name** node);
TB_API void tb_node_name_destroy(tb_node_name* node);

#ifdef __cplusplus
}
#endif

#endif
