/* Tensors whose memory is a mapped file. Pages are read on first access, and processes that map the
 * same file share the memory of the kernel's page cache. Details: docs/files.md. */
#ifndef TENSORBUS_C_FILE_H
#define TENSORBUS_C_FILE_H

#include <stdint.h>
#include <tensorbus/c/status.h>
#include <tensorbus/c/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A reference to a mapped file. Each reference that tb_file_map() or tb_file_retain() makes must be
 * released. The last release unmaps the file and ends its tensors. Receivers keep the tensors that
 * were published or shared from it. Usable in forked children. */
typedef struct tb_file tb_file;

TB_API void tb_file_retain(tb_file* file);
TB_API void tb_file_release(tb_file* file);

/* The effect of a write to the file's tensors. */
enum {
  TB_FILE_READ = 0,          /* a write ends the process (SIGSEGV) */
  TB_FILE_READ_WRITE = 1,    /* writes go to the file: all that map or read it see them at once */
  TB_FILE_COPY_ON_WRITE = 2, /* writes stay private to this process */
  TB_FILE_CREATE = 3         /* as TB_FILE_READ_WRITE, on a new or emptied file, fully allocated */
};

/* A .npy or .safetensors file describes its tensors. Any other file holds only the elements of one
 * tensor, row-major; `dtype` is then needed. */
typedef struct tb_file_options {
  uint32_t struct_size;
  int32_t mode;
  uint64_t offset;      /* bytes before the tensor; only for files that do not describe
                           themselves */
  const int64_t* shape; /* `dims` sizes; one may be -1 and is computed from the file's size.
                           NULL: the whole file, or the shape in the file. Needed for
                           TB_FILE_CREATE */
  uint32_t dims;
  tb_dtype dtype; /* 0: the dtype in the file */
  uint8_t reserved[3];
} tb_file_options;
#define TB_FILE_OPTIONS_INIT {sizeof(tb_file_options), TB_FILE_READ, 0, NULL, 0, 0, {0, 0, 0}}

/* Maps a file. Returns TB_ERROR_INVALID_ARGUMENT if the file is too short, inconsistent, or
 * contradicts the options; TB_ERROR_UNSUPPORTED for elements that no tensor can have;
 * TB_ERROR_PERMISSION; TB_ERROR_OUT_OF_MEMORY if the disk or the address space is full;
 * TB_ERROR_SYSTEM, e.g. if there is no such file. The message names the file and the field. */
TB_API tb_status tb_file_map(const char* path, const tb_file_options* options, tb_file** file);

/* The number of tensors; 1 for a file that is not a .safetensors file. They are in the order of the
 * file. */
TB_API uint32_t tb_file_tensor_count(const tb_file* file);
/* NULL if there is no tensor with this index, or it has no name. Valid as long as the file. */
TB_API const char* tb_file_tensor_name(const tb_file* file, uint32_t index);
/* Describes a tensor. Returns TB_ERROR_INVALID_ARGUMENT if none has this index;
 * TB_ERROR_UNSUPPORTED if no tensor can have its elements (the packed F6 types of .safetensors).
 * With TB_FILE_READ it is not `writable`. */
TB_API tb_status tb_file_tensor(const tb_file* file, uint32_t index, tb_tensor* tensor);
/* Describes the tensor with this name. NULL names the only tensor of a file without names. */
TB_API tb_status tb_file_tensor_named(const tb_file* file, const char* name, tb_tensor* tensor);

/* The metadata of a .safetensors file: a text for each key. NULL if there is none with this index.
 * Valid as long as the file. */
TB_API uint32_t tb_file_metadata_count(const tb_file* file);
TB_API const char* tb_file_metadata_key(const tb_file* file, uint32_t index);
TB_API const char* tb_file_metadata_value(const tb_file* file, uint32_t index);

/* Checks that the memory has the contents of the file. Returns TB_ERROR_SYSTEM if the file was cut
 * short, a page could not be read or written, or (unless writes reach the file) the file was
 * written to since it was mapped. Call it after reading: only then can the data be trusted. */
TB_API tb_status tb_file_check(const tb_file* file);
/* Waits until all writes are on the disk. Returns TB_ERROR_INVALID_ARGUMENT if writes do not reach
 * the file, and TB_ERROR_SYSTEM like tb_file_check(). */
TB_API tb_status tb_file_flush(const tb_file* file);

#ifdef __cplusplus
}
#endif

#endif
