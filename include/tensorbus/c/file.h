/* Tensors whose memory is a file's: nothing is read before it is touched, and processes that map
 * the same file share one memory, that of the kernel's page cache. docs/files.md tells it all. */
#ifndef TENSORBUS_C_FILE_H
#define TENSORBUS_C_FILE_H

#include <stdint.h>
#include <tensorbus/c/status.h>
#include <tensorbus/c/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counted: it is let go of when it was released as often as it was given or retained, and its
 * tensors with it; what was published or shared of it stays with those who have it. It may be used
 * in forked children, too. */
typedef struct tb_file tb_file;

TB_API void tb_file_retain(tb_file* file);
TB_API void tb_file_release(tb_file* file);

/* What writing to its tensors does. */
enum {
  TB_FILE_READ = 0,          /* it is a crash */
  TB_FILE_READ_WRITE = 1,    /* it is the file's: all who map or read it see it at once */
  TB_FILE_COPY_ON_WRITE = 2, /* it is ours alone */
  TB_FILE_CREATE = 3         /* as TB_FILE_READ_WRITE, to a file that is made, or emptied, first,
                                with all its blocks */
};

/* A file called .npy or .safetensors says itself what is in it. Any other has nothing but the
 * elements of one tensor, row-major: it needs a dtype. */
typedef struct tb_file_options {
  uint32_t struct_size;
  int32_t mode;
  uint64_t offset;      /* the bytes before the tensor, of a file that does not say it itself */
  const int64_t* shape; /* `dims` sizes, of which one may be -1: as many as there are; NULL: all
                           that is there, or what the file says. Needed to make one */
  uint32_t dims;
  tb_dtype dtype; /* 0: what the file says */
  uint8_t reserved[3];
} tb_file_options;
#define TB_FILE_OPTIONS_INIT {sizeof(tb_file_options), TB_FILE_READ, 0, NULL, 0, 0, {0, 0, 0}}

/* TB_ERROR_INVALID_ARGUMENT: the file is too short, or not what it says, or not what the options
 * say; TB_ERROR_UNSUPPORTED: of elements that no tensor has; TB_ERROR_PERMISSION;
 * TB_ERROR_OUT_OF_MEMORY: no room on the disk, or in the address space; TB_ERROR_SYSTEM: there is
 * no such file, say. The message names the file and the field. */
TB_API tb_status tb_file_map(const char* path, const tb_file_options* options, tb_file** file);

/* In the order in which a .safetensors file names them; one, of any other. */
TB_API uint32_t tb_file_tensor_count(const tb_file* file);
/* NULL: there is none of this index, or it has no name. Valid as long as the file. */
TB_API const char* tb_file_tensor_name(const tb_file* file, uint32_t index);
/* TB_ERROR_INVALID_ARGUMENT: there is none; TB_ERROR_UNSUPPORTED: there are no tensors of such
 * elements (the packed F6 types of .safetensors). In TB_FILE_READ it is not `writable`. */
TB_API tb_status tb_file_tensor(const tb_file* file, uint32_t index, tb_tensor* tensor);
/* The one of this name; NULL: the only one of a file without names. */
TB_API tb_status tb_file_tensor_named(const tb_file* file, const char* name, tb_tensor* tensor);

/* What a .safetensors file says beside its tensors: a text for each key. NULL: there is none of
 * this index. Valid as long as the file. */
TB_API uint32_t tb_file_metadata_count(const tb_file* file);
TB_API const char* tb_file_metadata_key(const tb_file* file, uint32_t index);
TB_API const char* tb_file_metadata_value(const tb_file* file, uint32_t index);

/* TB_ERROR_SYSTEM: the memory is not what is in the file: it was cut short, or could not be read or
 * written; or, unless writes reach it, somebody wrote to it since it was mapped. To be called after
 * what was read, which is to be trusted only then. */
TB_API tb_status tb_file_check(const tb_file* file);
/* Waits until what was written is on the disk. TB_ERROR_INVALID_ARGUMENT: writes do not reach it;
 * TB_ERROR_SYSTEM, as tb_file_check(). */
TB_API tb_status tb_file_flush(const tb_file* file);

#ifdef __cplusplus
}
#endif

#endif
