/* Versions of the library, its ABI and its protocol. */
#ifndef TENSORBUS_C_VERSION_H
#define TENSORBUS_C_VERSION_H

#include <stdint.h>
#include <tensorbus/c/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The versions are counted independently of each other. */
typedef struct tb_versions {
  uint32_t struct_size;
  uint32_t major, minor, patch; /* of the library */
  uint32_t abi;                 /* of these functions and structs: the number in the soname */
  uint32_t protocol;            /* of the messages between processes; must be equal in both */
  uint32_t layout;              /* of their shared memory; must be equal in both */
} tb_versions;
#define TB_VERSIONS_INIT {sizeof(tb_versions), 0, 0, 0, 0, 0, 0}

/* The versions of the loaded library; <tensorbus/version.hpp> has those that the program was
 * compiled with. */
TB_API void tb_library_versions(tb_versions* versions);

#ifdef __cplusplus
}
#endif

#endif
