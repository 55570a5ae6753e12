/* A program of an older header: it has declarations of its own, whose structs end before fields
 * that came later, and it is given nothing but the library. tests/house/test_abi.py compiles and
 * runs it. After each struct that the library fills in comes a word that it must leave alone. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define HOST (-1)
#define FLOAT32 12
#define COUNT 1000
#define LONG_NS INT64_C(30000000000)
#define UNTOUCHED UINT64_C(0x5ca1ab1e0ddba11)

struct publisher_options {
  uint32_t struct_size, depth, history;
  int32_t reliable;
  int64_t timeout_ns;
};
struct subscriber_options {
  uint32_t struct_size, depth, max_held;
  int32_t access;
};
struct layout {
  uint8_t dtype, flags;
  uint32_t dims;
  const int64_t *shape, *strides;
};
struct tensor {
  uint32_t struct_size;
  int32_t device;
  struct layout layout;
  void* data;
};
struct message {
  uint32_t struct_size, tensor_count;
  const struct tensor* tensors;
};
struct sample_header {
  uint32_t struct_size, publisher_number;
  uint64_t sequence;
};
struct publisher_stats {
  uint32_t struct_size, subscribers, waiting, reserved;
  uint64_t sent;
};

int32_t tb_publisher_create(void* participant, const char* topic,
                            const struct publisher_options* options, void** publisher);
int32_t tb_publisher_loan(void* publisher, const struct layout* layout, int32_t device,
                          void** loan);
int32_t tb_publisher_publish(void* publisher, const struct message* message, void* published);
int32_t tb_publisher_wait_for_subscribers(void* publisher, uint32_t count, int64_t timeout_ns);
int32_t tb_publisher_get_stats(const void* publisher, struct publisher_stats* stats);
void tb_publisher_destroy(void* publisher);
int32_t tb_loan_tensor(const void* loan, struct tensor* tensor);
void tb_loan_destroy(void* loan);
int32_t tb_subscriber_create(void* participant, const char* topic,
                             const struct subscriber_options* options, void** subscriber);
int32_t tb_subscriber_receive(void* subscriber, int64_t timeout_ns, const void* give_up,
                              void** sample);
void tb_subscriber_destroy(void* subscriber);
void tb_sample_get_header(const void* sample, struct sample_header* header);
int32_t tb_sample_tensor(const void* sample, uint32_t index, struct tensor* tensor);
void tb_sample_release(void* sample);
const char* tb_error_message(void);

#define CHECK(condition)                                                                      \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      fprintf(stderr, "line %d: not so: %s\n%s\n", __LINE__, #condition, tb_error_message()); \
      exit(1);                                                                                \
    }                                                                                         \
  } while (0)

struct guarded_tensor {
  struct tensor tensor;
  uint64_t after;
};
static struct guarded_tensor no_tensor(void) {
  struct guarded_tensor none = {{sizeof(struct tensor), HOST, {0, 0, 0, NULL, NULL}, NULL},
                                UNTOUCHED};
  return none;
}

static const int64_t shape[] = {COUNT};

/* Two tensors, one in a loan and one that is copied. */
static void publish(void* publisher, float* own) {
  const struct layout layout = {FLOAT32, 0, 1, shape, NULL};
  void* loan = NULL;
  CHECK(tb_publisher_loan(publisher, &layout, HOST, &loan) == 0);
  struct guarded_tensor lent = no_tensor();
  CHECK(tb_loan_tensor(loan, &lent.tensor) == 0);
  CHECK(lent.after == UNTOUCHED);
  for (int i = 0; i < COUNT; ++i) ((float*)lent.tensor.data)[i] = own[i] + 1;

  const struct tensor tensors[] = {lent.tensor, {sizeof(struct tensor), HOST, layout, own}};
  const struct message message = {sizeof message, 2, tensors};
  CHECK(tb_publisher_publish(publisher, &message, NULL) == 0);
  tb_loan_destroy(loan);
}

static void check_received(const void* sample, const float* own) {
  for (uint32_t index = 0; index < 2; ++index) {
    struct guarded_tensor received = no_tensor();
    CHECK(tb_sample_tensor(sample, index, &received.tensor) == 0);
    CHECK(received.after == UNTOUCHED);
    CHECK(received.tensor.layout.dtype == FLOAT32 && received.tensor.layout.shape[0] == COUNT);
    for (int i = 0; i < COUNT; ++i)
      CHECK(((const float*)received.tensor.data)[i] == own[i] + (index == 0 ? 1 : 0));
  }
  struct {
    struct sample_header header;
    uint64_t after;
  } told = {{sizeof(struct sample_header), 0, 42}, UNTOUCHED};
  tb_sample_get_header(sample, &told.header);
  CHECK(told.header.sequence == 0 && told.after == UNTOUCHED);
}

static void check_counted(const void* publisher) {
  struct {
    struct publisher_stats stats;
    uint64_t after;
  } told = {{sizeof(struct publisher_stats), 0, 0, 0, 0}, UNTOUCHED};
  CHECK(tb_publisher_get_stats(publisher, &told.stats) == 0);
  CHECK(told.stats.sent == 1 && told.stats.subscribers == 1 && told.after == UNTOUCHED);
}

int main(void) {
  const struct publisher_options publishes = {sizeof publishes, 4, 0, 1, LONG_NS};
  const struct subscriber_options subscribes = {sizeof subscribes, 0, 8, 0};
  void *publisher = NULL, *subscriber = NULL, *sample = NULL;
  CHECK(tb_publisher_create(NULL, "frames", &publishes, &publisher) == 0);
  CHECK(tb_subscriber_create(NULL, "frames", &subscribes, &subscriber) == 0);
  CHECK(tb_publisher_wait_for_subscribers(publisher, 1, LONG_NS) == 0);

  float own[COUNT];
  for (int i = 0; i < COUNT; ++i) own[i] = (float)i;
  publish(publisher, own);
  CHECK(tb_subscriber_receive(subscriber, LONG_NS, NULL, &sample) == 0);
  check_received(sample, own);
  check_counted(publisher);
  tb_sample_release(sample);
  tb_subscriber_destroy(subscriber);
  tb_publisher_destroy(publisher);
  return 0;
}
