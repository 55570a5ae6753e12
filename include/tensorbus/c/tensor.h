/* Tensors to publish and tensors of received samples. */
#ifndef TENSORBUS_C_TENSOR_H
#define TENSORBUS_C_TENSOR_H

#include <stddef.h>
#include <stdint.h>
#include <tensorbus/c/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element types, by the numbers of the protocol; others by tb_dtype_named(). */
typedef uint8_t tb_dtype;
enum {
  TB_BOOL = 1,
  TB_UINT8 = 2,
  TB_INT8 = 3,
  TB_UINT16 = 4,
  TB_INT16 = 5,
  TB_UINT32 = 6,
  TB_INT32 = 7,
  TB_UINT64 = 8,
  TB_INT64 = 9,
  TB_FLOAT16 = 10,
  TB_BFLOAT16 = 11,
  TB_FLOAT32 = 12,
  TB_FLOAT64 = 13,
  TB_COMPLEX64 = 14,
  TB_COMPLEX128 = 15
};
/* The dtype of this name, as PyTorch and NumPy spell it ("float8_e4m3fn"); 0 if there is none. */
TB_API tb_dtype tb_dtype_named(const char* name);
/* "" and 0 for a number that is not a dtype. */
TB_API const char* tb_dtype_name(tb_dtype dtype);
TB_API size_t tb_dtype_bytes(tb_dtype dtype);

/* Where a tensor lies: TB_HOST, or the ordinal of a GPU in this process. */
#define TB_HOST INT32_C(-1)

/* PyTorch's attributes of a tensor; any combination. */
enum {
  TB_REQUIRES_GRAD = 2,
  TB_FROM_TORCH = 4,
  TB_FROM_NUMPY = 8,
  TB_PARAMETER = 16,
  TB_CONJUGATE = 32,
  TB_NEGATIVE = 64
};

/* How the elements lie in memory. At most 64 dimensions. */
typedef struct tb_layout {
  tb_dtype dtype;
  uint8_t flags;
  uint32_t dims;
  const int64_t* shape;
  const int64_t* strides; /* in elements, may be zero or negative; NULL: row-major, no gaps */
} tb_layout;

/* A tensor in this process. A tensor that the library describes points into its sample, loan or
 * file, and is valid as long as that object. */
typedef struct tb_tensor {
  uint32_t struct_size;
  int32_t device;
  tb_layout layout;
  void* data; /* the first element; write to a received tensor only if it is `writable` */

  /* For received tensors. */
  int32_t published_on; /* the publisher's device; differs from `device` if the tensor came through
                           host memory */
  int32_t writable;

  /* For publishing GPU memory: the stream (CUstream, cudaStream_t) on which it is written.
   * Receivers read it after the stream's present work has run. NULL: the legacy default stream. */
  void* stream;
  /* For publishing GPU memory: keeps the memory while receivers read it. With a keeper it is
   * published in place where the driver supports this. release(keeper) is called once, in the
   * caller's thread or a thread of the bus, also if the call fails, unless a struct of the message
   * was not initialised. NULL: the memory is copied on the GPU. */
  void (*release)(void* keeper);
  void* keeper;
} tb_tensor;
#define TB_TENSOR_INIT \
  {sizeof(tb_tensor), TB_HOST, {0, 0, 0, NULL, NULL}, NULL, TB_HOST, 0, NULL, NULL, NULL}

/* The first publisher of a sample that a bridge published again. */
typedef struct tb_origin {
  uint8_t host[16];
  uint8_t writer[16];
  uint64_t sequence;
} tb_origin;

/* A message to publish: tensors, and the small fields beside them as one value in MessagePack, in
 * which extension type 1 with four bytes (little-endian) stands for the tensor of that index.
 * Tensors in a loan, in tb_empty() memory or in a received sample are sent by reference; all others
 * are copied once. A message of one tensor without fields is that tensor. */
typedef struct tb_message {
  uint32_t struct_size;
  uint32_t tensor_count;
  const tb_tensor* tensors; /* all with the struct_size of the first */
  const void* fields;
  size_t field_bytes;
  uint64_t fingerprint;    /* of the message type; 0: untyped */
  const tb_origin* origin; /* set by a bridge that republishes a sample; NULL: none */
} tb_message;
#define TB_MESSAGE_INIT {sizeof(tb_message), 0, NULL, NULL, 0, 0, NULL}

/* Memory of the bus, to fill and publish without a copy. */
typedef struct tb_loan tb_loan;

/* Describes the memory. Its bytes are not cleared. GPU memory may be used only by kernels. */
TB_API tb_status tb_loan_tensor(const tb_loan* loan, tb_tensor* tensor);
/* Returns the memory without publishing it. */
TB_API void tb_loan_destroy(tb_loan* loan);

#ifdef __cplusplus
}
#endif

#endif
