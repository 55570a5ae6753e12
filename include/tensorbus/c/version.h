/* Which version of what. */
#ifndef TENSORBUS_C_VERSION_H
#define TENSORBUS_C_VERSION_H

#include <stdint.h>
#include <tensorbus/c/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each is counted by itself. */
typedef struct tb_versions {
  uint32_t struct_size;
  uint32_t major, minor, patch; /* of the library */
  uint32_t abi;                 /* of these functions and structs: that of the soname */
  uint32_t protocol;            /* of what processes say to each other; they must be the same */
  uint32_t layout;              /* of what they share in memory; the same */
} tb_versions;
#define TB_VERSIONS_INIT {sizeof(tb_versions), 0, 0, 0, 0, 0, 0}

/* Of the library that is loaded; <tensorbus/version.hpp> is what the program was compiled with. */
TB_API void tb_library_versions(tb_versions* versions);

#ifdef __cplusplus
}
#endif

#endif
