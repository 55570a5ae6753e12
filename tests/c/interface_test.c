/* The C interface, from C: each test is a name on the command line, and has a domain of its own.
 * Some start a second process, which is a test of another name. */
#define _GNU_SOURCE
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define COUNT 1000

static const char* program;

/* This program again, with another name on its command line. */
static pid_t start(const char* test, const char* argument) {
  const pid_t child = fork();
  if (child == 0) {
    execl(program, program, test, argument, (char*)NULL);
    _exit(127);
  }
  CHECK(child > 0);
  return child;
}

static void join(pid_t child) {
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static tb_publisher* publisher_of(const char* topic, const tb_publisher_options* options) {
  tb_publisher* publisher = NULL;
  CHECK_OK(tb_publisher_create(NULL, topic, options, &publisher));
  return publisher;
}

static tb_subscriber* subscriber_of(const char* topic, const tb_subscriber_options* options) {
  tb_subscriber* subscriber = NULL;
  CHECK_OK(tb_subscriber_create(NULL, topic, options, &subscriber));
  return subscriber;
}

static const int64_t shape[] = {COUNT};

/* A loan of COUNT floats: value, value + 1, and so on. */
static tb_loan* filled(tb_publisher* publisher, float value, tb_tensor* tensor) {
  const tb_layout layout = {TB_FLOAT32, 0, 1, shape, NULL};
  tb_loan* loan = NULL;
  CHECK_OK(tb_publisher_loan(publisher, &layout, TB_HOST, &loan));
  const tb_tensor none = TB_TENSOR_INIT;
  *tensor = none;
  CHECK_OK(tb_loan_tensor(loan, tensor));
  CHECK(tensor->writable && tensor->device == TB_HOST && tensor->layout.strides[0] == 1);
  for (int i = 0; i < COUNT; ++i) ((float*)tensor->data)[i] = value + (float)i;
  return loan;
}

static void check_filled(const tb_sample* sample, uint32_t index, float value) {
  tb_tensor tensor = TB_TENSOR_INIT;
  CHECK_OK(tb_sample_tensor(sample, index, &tensor));
  CHECK(tensor.layout.dtype == TB_FLOAT32 && tensor.layout.dims == 1);
  CHECK(tensor.layout.shape[0] == COUNT);
  for (int i = 0; i < COUNT; ++i) CHECK(((const float*)tensor.data)[i] == value + (float)i);
}

/* {"x": tensor 0, "id": 7} in MessagePack. */
static const unsigned char fields[] = {0x82, 0xa1, 'x', 0xd6, 1, 0, 0, 0, 0, 0xa2, 'i', 'd', 7};

static void test_publish(const char* argument) {
  (void)argument;
  tb_publisher_options options = TB_PUBLISHER_OPTIONS_INIT;
  options.reliable = 1;
  options.node = "camera";
  tb_publisher* publisher = publisher_of("frames", &options);
  const pid_t child = start("receive", "");
  CHECK_OK(tb_publisher_wait_for_subscribers(publisher, 1, LONG_NS));

  tb_tensor tensor = TB_TENSOR_INIT;
  tb_loan* loan = filled(publisher, 1, &tensor);
  tb_published published = TB_PUBLISHED_INIT;
  CHECK_OK(tb_publisher_publish_loan(publisher, &loan, NULL, &published));
  CHECK(loan == NULL && published.subscribers == 1 && published.sequence == 0);

  loan = filled(publisher, 2, &tensor);
  tb_message message = TB_MESSAGE_INIT;
  message.tensors = &tensor;
  message.tensor_count = 1;
  message.fields = fields;
  message.field_bytes = sizeof fields;
  const tb_origin origin = {{1}, {2}, 42};
  message.origin = &origin;
  CHECK_OK(tb_publisher_publish(publisher, &message, NULL));
  CHECK_STATUS(tb_publisher_publish(publisher, &message, NULL), TB_ERROR_INVALID_ARGUMENT);
  CHECK(strstr(tb_error_message(), "published before") != NULL);

  float own[COUNT];
  for (int i = 0; i < COUNT; ++i) own[i] = 3 + (float)i;
  tensor.data = own; /* copied */
  CHECK_OK(tb_publisher_publish_within(publisher, &message, TB_FOREVER, NULL, NULL));
  join(child);

  tb_publisher_stats stats = TB_PUBLISHER_STATS_INIT;
  CHECK_OK(tb_publisher_get_stats(publisher, &stats));
  CHECK(stats.sent == 3 && stats.delivered == 3 && stats.bytes_copied == sizeof own);
  tb_publisher_close(publisher);
  CHECK_STATUS(tb_publisher_publish(publisher, &message, NULL), TB_CLOSED);
  tb_loan_destroy(loan); /* the tensor's shape was still in it */
  tb_publisher_destroy(publisher);
}

/* Copies what lies with another publisher, and lends its own. */
static void test_isolated(const char* argument) {
  (void)argument;
  tb_publisher_options options = TB_PUBLISHER_OPTIONS_INIT;
  options.isolated = 1;
  tb_publisher* publisher = publisher_of("frames", &options);
  tb_publisher* other = publisher_of("others", NULL);
  tb_subscriber* subscriber = subscriber_of("frames", NULL);
  CHECK_OK(tb_publisher_wait_for_subscribers(publisher, 1, LONG_NS));
  tb_publisher* const makers[] = {publisher, other};
  for (int i = 0; i < 2; ++i) {
    tb_tensor tensor = TB_TENSOR_INIT;
    tb_loan* loan = filled(makers[i], (float)i, &tensor);
    CHECK_OK(tb_publisher_publish_loan(publisher, &loan, NULL, NULL));
    CHECK(loan == NULL);
    tb_sample* sample = NULL;
    CHECK_OK(tb_subscriber_receive(subscriber, LONG_NS, NULL, &sample));
    check_filled(sample, 0, (float)i);
    tb_sample_release(sample);
    tb_publisher_stats stats = TB_PUBLISHER_STATS_INIT;
    CHECK_OK(tb_publisher_get_stats(publisher, &stats));
    CHECK(stats.bytes_copied == (uint64_t)i * sizeof(float) * COUNT);
  }
  tb_subscriber_destroy(subscriber);
  tb_publisher_destroy(other);
  tb_publisher_destroy(publisher);
}

static void test_receive(const char* argument) {
  (void)argument;
  tb_subscriber* subscriber = subscriber_of("frames", NULL);
  tb_sample* samples[3] = {NULL, NULL, NULL};
  for (int i = 0; i < 3; ++i) {
    CHECK_OK(tb_subscriber_receive(subscriber, LONG_NS, NULL, &samples[i]));
    CHECK(tb_sample_tensor_count(samples[i]) == 1);
  }
  tb_sample_header header = TB_SAMPLE_HEADER_INIT;
  tb_sample_get_header(samples[1], &header);
  CHECK(header.sequence == 1 && strcmp(header.topic, "frames") == 0 && header.timestamp_ns > 0);
  CHECK(header.has_origin && header.origin.sequence == 42);
  CHECK(header.origin.host[0] == 1 && header.origin.writer[0] == 2);
  tb_sample_get_header(samples[0], &header);
  CHECK(!header.has_origin && header.sequence == 0);

  tb_tensor tensor = TB_TENSOR_INIT;
  CHECK_OK(tb_sample_tensor_at(samples[1], "x", &tensor));
  CHECK(((const float*)tensor.data)[0] == 2 && !tensor.writable);
  CHECK_STATUS(tb_sample_tensor_at(samples[1], "y", &tensor), TB_ERROR_INVALID_ARGUMENT);
  CHECK_STATUS(tb_sample_tensor(samples[1], 1, &tensor), TB_ERROR_INVALID_ARGUMENT);
  size_t bytes = 0;
  const void* found = tb_sample_fields(samples[1], &bytes);
  CHECK(bytes == sizeof fields && memcmp(found, fields, bytes) == 0);
  (void)tb_sample_fields(samples[0], &bytes);
  CHECK(bytes == 0);

  tb_sample* copy = NULL;
  CHECK_OK(tb_sample_copy(samples[2], &copy));
  tb_sample_retain(samples[2]);
  tb_sample_release(samples[2]);
  tb_subscriber_destroy(subscriber); /* samples stay valid */
  for (int i = 0; i < 3; ++i) {
    check_filled(samples[i], 0, 1 + (float)i);
    CHECK(tb_sample_intact(samples[i]));
    tb_sample_release(samples[i]);
  }
  check_filled(copy, 0, 3);
  CHECK_OK(tb_sample_tensor(copy, 0, &tensor));
  CHECK(tensor.writable);
  ((float*)tensor.data)[0] = 4;
  tb_sample_release(copy);
}

static int never(void* context) {
  ++*(int*)context;
  return 0;
}
static int at_third(void* context) { return ++*(int*)context == 3; }

#define MANY 100

/* Publishes so many numbers, as fields. */
static void publish_numbers(tb_publisher* publisher, unsigned char first, unsigned char count) {
  for (unsigned char number = first; number < first + count; ++number) {
    tb_message message = TB_MESSAGE_INIT;
    message.fields = &number; /* MessagePack: a small integer */
    message.field_bytes = 1;
    CHECK_OK(tb_publisher_publish(publisher, &message, NULL));
  }
}

static void test_receive_many(const char* argument) {
  (void)argument;
  tb_publisher_options options = TB_PUBLISHER_OPTIONS_INIT;
  options.depth = MANY;
  tb_publisher* publisher = publisher_of("numbers", &options);
  tb_subscriber* subscriber = subscriber_of("numbers", NULL);
  CHECK_OK(tb_subscriber_wait_for_publishers(subscriber, 1, LONG_NS));
  CHECK_OK(tb_publisher_wait_for_subscribers(publisher, 1, LONG_NS));
  tb_sample* samples[MANY];
  size_t count = 7;
  const tb_give_up at_once = {at_third, &(int){2}};
  CHECK_STATUS(tb_subscriber_receive_many(subscriber, samples, MANY, TB_NOW, NULL, &count),
               TB_TIMED_OUT);
  CHECK_STATUS(tb_subscriber_receive_many(subscriber, samples, MANY, TB_FOREVER, &at_once, &count),
               TB_INTERRUPTED);
  CHECK_STATUS(tb_subscriber_receive_many(subscriber, samples, 0, TB_NOW, NULL, &count),
               TB_ERROR_INVALID_ARGUMENT);
  CHECK(count == 0);
  publish_numbers(publisher, 0, MANY);
  unsigned char next = 0;
  for (size_t room = 10; next < MANY; room = MANY) { /* 10, and then the other 90 */
    CHECK_OK(tb_subscriber_receive_many(subscriber, samples, room, LONG_NS, NULL, &count));
    CHECK(count == (next == 0 ? 10 : MANY - 10));
    for (size_t i = 0; i < count; ++i) {
      size_t bytes = 0;
      const unsigned char* number = tb_sample_fields(samples[i], &bytes);
      CHECK(bytes == 1 && *number == next++);
      tb_sample_release(samples[i]);
    }
  }
  tb_subscriber_destroy(subscriber);
  tb_publisher_destroy(publisher);
}

static void test_rows(const char* argument) {
  (void)argument;
  tb_publisher_options options = TB_PUBLISHER_OPTIONS_INIT;
  options.depth = MANY;
  options.reliable = 1;
  tb_publisher* publisher = publisher_of("rows", &options);
  tb_subscriber* subscriber = subscriber_of("rows", NULL);
  CHECK_OK(tb_subscriber_wait_for_publishers(subscriber, 1, LONG_NS));
  CHECK_OK(tb_publisher_wait_for_subscribers(publisher, 1, LONG_NS));
  static float sent[MANY + 1][3];
  static float received[MANY][3];
  for (int i = 0; i <= MANY; ++i) sent[i][1] = (float)i;
  const int64_t sizes[] = {MANY + 1, 3};
  tb_tensor rows = TB_TENSOR_INIT;
  rows.layout = (tb_layout){TB_FLOAT32, 0, 2, sizes, NULL};
  rows.data = sent;
  tb_published_many published = TB_PUBLISHED_MANY_INIT;
  CHECK_STATUS(tb_publisher_publish_many(publisher, &rows, TB_NOW, NULL, &published), TB_TIMED_OUT);
  CHECK(published.count == MANY && published.sequence == MANY - 1 && published.subscribers == 1);
  const int64_t room[] = {MANY, 3};
  const tb_layout layout = {TB_FLOAT32, 0, 2, room, NULL};
  size_t count = 0;
  CHECK_OK(tb_subscriber_receive_into(subscriber, received, &layout, LONG_NS, NULL, &count));
  CHECK(count == MANY);
  for (int i = 0; i < MANY; ++i) CHECK(received[i][1] == (float)i && received[i][2] == 0);
  CHECK_STATUS(tb_subscriber_receive_into(subscriber, received, &layout, TB_NOW, NULL, &count),
               TB_TIMED_OUT);
  CHECK(count == 0);
  tb_subscriber_destroy(subscriber);
  tb_publisher_destroy(publisher);
}

/* Two subscribers that ask for the end of the stream; one of them blocks and is cut off. */
static void test_ends(const char* argument) {
  (void)argument;
  tb_publisher_options options = TB_PUBLISHER_OPTIONS_INIT;
  options.depth = 2;
  options.lag_timeout_ns = 10000000;
  tb_publisher* publisher = NULL;
  CHECK_STATUS(tb_publisher_create(NULL, "ends", &options, &publisher), TB_ERROR_INVALID_ARGUMENT);
  options.reliable = 1;
  publisher = publisher_of("ends", &options);
  tb_subscriber_options asking = TB_SUBSCRIBER_OPTIONS_INIT;
  asking.end_of_stream = 1;
  tb_subscriber* reader = subscriber_of("ends", &asking);
  asking.depth = 1;
  tb_subscriber* stuck = subscriber_of("ends", &asking);
  CHECK_OK(tb_publisher_wait_for_subscribers(publisher, 2, LONG_NS));
  tb_message message = TB_MESSAGE_INIT;
  for (int i = 0; i < 2; ++i) CHECK_OK(tb_publisher_publish(publisher, &message, NULL));
  tb_publisher_stats stats = TB_PUBLISHER_STATS_INIT;
  CHECK_OK(tb_publisher_get_stats(publisher, &stats));
  CHECK(stats.cut_off == 1 && stats.subscribers == 1);
  tb_publisher_destroy(publisher);

  tb_sample* sample = NULL;
  for (int i = 0; i < 2; ++i) {
    CHECK_OK(tb_subscriber_receive(reader, LONG_NS, NULL, &sample));
    tb_sample_release(sample);
  }
  CHECK_STATUS(tb_subscriber_receive(reader, LONG_NS, NULL, &sample), TB_CLOSED);
  CHECK_STATUS(tb_subscriber_receive(stuck, LONG_NS, NULL, &sample), TB_CLOSED);
  tb_subscriber_stats cut_off = TB_SUBSCRIBER_STATS_INIT;
  CHECK_OK(tb_subscriber_get_stats(stuck, &cut_off));
  CHECK(cut_off.cut_off == 1);
  tb_subscriber_destroy(reader);
  tb_subscriber_destroy(stuck);
}

static void test_wait(const char* argument) {
  (void)argument;
  tb_subscriber* subscriber = subscriber_of("frames", NULL);
  tb_sample* sample = NULL;
  CHECK_STATUS(tb_subscriber_receive(subscriber, TB_NOW, NULL, &sample), TB_TIMED_OUT);
  CHECK_STATUS(tb_subscriber_receive(subscriber, 1000000, NULL, &sample), TB_TIMED_OUT);
  int asked = 0;
  const tb_give_up patient = {never, &asked};
  CHECK_STATUS(tb_subscriber_receive(subscriber, 200000000, &patient, &sample), TB_TIMED_OUT);
  CHECK(asked >= 2);
  asked = 0;
  const tb_give_up soon = {at_third, &asked};
  CHECK_STATUS(tb_subscriber_receive(subscriber, TB_FOREVER, &soon, &sample), TB_INTERRUPTED);
  CHECK_STATUS(tb_subscriber_wait_for_publishers(subscriber, 1, 1000000), TB_TIMED_OUT);
  CHECK(sample == NULL && !tb_subscriber_ready(subscriber));

  int descriptor = -1;
  CHECK_OK(tb_subscriber_event_descriptor(subscriber, &descriptor));
  struct pollfd polled = {descriptor, POLLIN, 0};
  tb_publisher* publisher = publisher_of("frames", NULL);
  CHECK_OK(tb_subscriber_wait_for_publishers(subscriber, 1, LONG_NS));
  CHECK_OK(tb_publisher_wait_for_subscribers(publisher, 1, LONG_NS));
  tb_tensor tensor = TB_TENSOR_INIT;
  tb_loan* loan = filled(publisher, 5, &tensor);
  CHECK_OK(tb_publisher_publish_loan(publisher, &loan, NULL, NULL));
  tb_status status = TB_TIMED_OUT;
  while (status == TB_TIMED_OUT) { /* the memory of a first sample may come after it */
    CHECK(poll(&polled, 1, 30000) == 1);
    status = tb_subscriber_receive(subscriber, TB_NOW, NULL, &sample);
  }
  CHECK_OK(status);
  check_filled(sample, 0, 5);
  tb_sample_release(sample);
  tb_subscriber_stats stats = TB_SUBSCRIBER_STATS_INIT;
  CHECK_OK(tb_subscriber_get_stats(subscriber, &stats));
  CHECK(stats.received == 1 && stats.publishers == 1);
  tb_subscriber_close(subscriber);
  CHECK_STATUS(tb_subscriber_receive(subscriber, TB_FOREVER, NULL, &sample), TB_CLOSED);
  size_t count = 7;
  CHECK_STATUS(tb_subscriber_receive_many(subscriber, &sample, 1, TB_FOREVER, NULL, &count),
               TB_CLOSED);
  CHECK(count == 0);
  tb_subscriber_destroy(subscriber);
  tb_publisher_destroy(publisher);
}

static void test_queue(const char* argument) {
  (void)argument;
  tb_queue_options options = TB_QUEUE_OPTIONS_INIT;
  options.maxsize = 1;
  options.shared = 1;
  tb_queue* queue = NULL;
  CHECK_OK(tb_queue_create(NULL, &options, &queue));
  float own[COUNT];
  for (int i = 0; i < COUNT; ++i) own[i] = 6 + (float)i;
  tb_tensor tensor = TB_TENSOR_INIT;
  tensor.layout.dtype = TB_FLOAT32;
  tensor.layout.dims = 1;
  tensor.layout.shape = shape;
  tensor.data = own;
  tb_message item = TB_MESSAGE_INIT;
  item.tensors = &tensor;
  item.tensor_count = 1;
  CHECK_OK(tb_queue_put(queue, &item, TB_NOW, NULL));
  CHECK_STATUS(tb_queue_put(queue, &item, TB_NOW, NULL), TB_TIMED_OUT);
  tb_pending* put = NULL;
  CHECK_OK(tb_queue_start_put(queue, &item, &put));
  CHECK_STATUS(tb_pending_take(put, NULL), TB_TIMED_OUT);
  tb_queue_options told = TB_QUEUE_OPTIONS_INIT;
  CHECK_OK(tb_queue_get_options(queue, &told));
  CHECK(told.maxsize == 1 && told.shared && strcmp(told.name, "") == 0);
  CHECK(tb_queue_made_here(queue));
  const pid_t child = start("get", tb_queue_address(queue));
  struct pollfd polled = {tb_pending_descriptor(put), POLLIN, 0};
  CHECK(poll(&polled, 1, 30000) == 1);
  CHECK_OK(tb_pending_take(put, NULL));
  tb_pending_destroy(put);
  CHECK_OK(tb_queue_join(queue, LONG_NS, NULL));
  join(child);
  CHECK_STATUS(tb_queue_task_done(queue, NULL), TB_ERROR_INVALID_ARGUMENT);
  tb_queue_stats stats = TB_QUEUE_STATS_INIT;
  CHECK_OK(tb_queue_get_stats(queue, NULL, &stats));
  CHECK(stats.items == 0 && stats.unfinished == 0 && stats.lost == 0);
  CHECK_OK(tb_queue_close(queue, NULL));
  tb_queue_destroy(queue);
}

static void test_get(const char* address) {
  tb_queue* queue = NULL;
  tb_queue_options options = TB_QUEUE_OPTIONS_INIT;
  options.shared = 1;
  CHECK_STATUS(tb_queue_at(NULL, "nonsense", &options, &queue), TB_ERROR_INVALID_ARGUMENT);
  CHECK_OK(tb_queue_at(NULL, address, &options, &queue));
  CHECK(!tb_queue_made_here(queue));
  tb_queue_destroy(queue);
  CHECK_OK(tb_queue_open(NULL, address, LONG_NS, NULL, &queue));
  tb_pending* pending = NULL;
  CHECK_OK(tb_queue_start_get(queue, &pending));
  struct pollfd polled = {tb_pending_descriptor(pending), POLLIN, 0};
  CHECK(poll(&polled, 1, 30000) == 1);
  tb_sample* item = NULL;
  CHECK_OK(tb_pending_take(pending, &item));
  tb_pending_destroy(pending);
  check_filled(item, 0, 6);
  tb_sample_release(item);
  CHECK_OK(tb_queue_get(queue, LONG_NS, NULL, &item));
  tb_tensor tensor = TB_TENSOR_INIT;
  CHECK_OK(tb_sample_tensor(item, 0, &tensor));
  CHECK(tensor.writable && tb_is_shared(NULL, tensor.data, sizeof(float) * COUNT));
  tb_sample_release(item);
  for (int i = 0; i < 2; ++i) CHECK_OK(tb_queue_task_done(queue, NULL));
  tb_queue_destroy(queue);
}

static void test_share(const char* argument) {
  (void)argument;
  const tb_layout layout = {TB_FLOAT32, TB_FROM_TORCH, 1, shape, NULL};
  tb_loan* memory = NULL;
  CHECK_OK(tb_empty(NULL, &layout, TB_HOST, 1, &memory));
  tb_tensor tensor = TB_TENSOR_INIT;
  CHECK_OK(tb_loan_tensor(memory, &tensor));
  for (int i = 0; i < COUNT; ++i) ((float*)tensor.data)[i] = (float)i;
  tb_message message = TB_MESSAGE_INIT;
  message.tensors = &tensor;
  message.tensor_count = 1;
  tb_share_options options = TB_SHARE_OPTIONS_INIT;
  options.uses = 1;
  options.shared = 1;
  tb_share* share = NULL;
  CHECK_OK(tb_share_create(NULL, &message, &options, &share));
  CHECK(tb_share_is_open(share) && strncmp(tb_share_handle(share), "tensorbus:", 10) == 0);
  CHECK_OK(tb_handle_check(tb_share_handle(share)));
  CHECK_STATUS(tb_handle_check("tensorbus:?"), TB_ERROR_INVALID_ARGUMENT);
  join(start("attach", tb_share_handle(share)));
  CHECK(!tb_share_is_open(share));
  CHECK(((float*)tensor.data)[0] == 8);
  tb_sample* sample = NULL;
  CHECK_STATUS(tb_attach(NULL, tb_share_handle(share), TB_ACCESS_READ, LONG_NS, NULL, &sample),
               TB_ERROR_CLOSED);
  CHECK_STATUS(tb_attach(NULL, "tensorbus:?", TB_ACCESS_READ, LONG_NS, NULL, &sample),
               TB_ERROR_INVALID_ARGUMENT);
  tb_share_destroy(share);
  tb_loan_destroy(memory);
}

static void test_attach(const char* handle) {
  tb_sample* sample = NULL;
  CHECK_OK(tb_attach(NULL, handle, TB_ACCESS_SHARED, LONG_NS, NULL, &sample));
  check_filled(sample, 0, 0);
  tb_tensor tensor = TB_TENSOR_INIT;
  CHECK_OK(tb_sample_tensor(sample, 0, &tensor));
  CHECK(tensor.layout.flags == TB_FROM_TORCH);
  ((float*)tensor.data)[0] = 8;
  tb_sample_release(sample);
}

static int tell_publisher(const tb_publisher_info* info, void* context) {
  CHECK(strcmp(info->topic, "frames") == 0 && strcmp(info->node, "camera") == 0);
  CHECK(info->pid == (uint32_t)getpid() && strcmp(info->type, "a.Type\nx: int") == 0);
  ++*(int*)context;
  return 0;
}
static int tell_node(const tb_node_info* info, void* context) {
  CHECK(strcmp(info->name, "camera") == 0);
  ++*(int*)context;
  return 1; /* enough */
}

static void test_list(const char* argument) {
  (void)argument;
  tb_publisher_options options = TB_PUBLISHER_OPTIONS_INIT;
  options.node = "camera";
  options.type = "a.Type\nx: int";
  tb_publisher* publisher = publisher_of("frames", &options);
  tb_node_name* names[2] = {NULL, NULL};
  for (int i = 0; i < 2; ++i) CHECK_OK(tb_node_name_create(NULL, "camera", &names[i]));
  CHECK_OK(tb_wait_for_topic(NULL, "frames", LONG_NS, NULL));
  CHECK_OK(tb_wait_for_node(NULL, "camera", LONG_NS, NULL));
  CHECK_STATUS(tb_wait_for_node(NULL, "other", 1000000, NULL), TB_TIMED_OUT);
  int count = 0;
  CHECK_OK(tb_list_publishers(NULL, tell_publisher, &count));
  CHECK_OK(tb_list_nodes(NULL, tell_node, &count));
  CHECK(count == 2);
  for (int i = 0; i < 2; ++i) tb_node_name_destroy(names[i]);
  tb_publisher_destroy(publisher);
}

static void test_inspect(const char* argument) {
  (void)argument;
  tb_subscriber_options options = TB_SUBSCRIBER_OPTIONS_INIT;
  options.node = "viewer";
  tb_publisher* publisher = publisher_of("frames", NULL);
  tb_subscriber* subscriber = subscriber_of("frames", &options);
  CHECK_OK(tb_publisher_wait_for_subscribers(publisher, 1, LONG_NS));
  tb_inspection* found = NULL;
  CHECK_OK(tb_inspect(NULL, LONG_NS, &found));
  CHECK(found->struct_size == sizeof *found && found->time_ns > 0);
  CHECK(strcmp(found->domain, getenv("TENSORBUS_DOMAIN")) == 0);
  CHECK(found->participant_count == 1);
  const tb_participant_report* report = found->participants[0];
  CHECK(strcmp(report->error, "") == 0 && report->pid == (uint32_t)getpid());
  CHECK(report->topic_count == 1 && strcmp(report->topics[0], "frames") == 0);
  CHECK(report->publisher_count == 1 && report->subscriber_count == 1);
  CHECK(report->queue_count == 0 && report->share_count == 0 && report->memory != NULL);
  const tb_publisher_report* said = report->publishers[0];
  CHECK(said->stats->subscribers == 1 && said->link_count == 1);
  CHECK(strcmp(said->links[0]->node, "viewer") == 0);
  CHECK(said->links[0]->subscriber.pid == (uint32_t)getpid());
  CHECK(report->subscribers[0]->stats->publishers == 1);
  CHECK(report->subscribers[0]->publisher_count == 1);
  tb_inspection_destroy(found);
  tb_subscriber_destroy(subscriber);
  tb_publisher_destroy(publisher);
}

static void test_participants(const char* argument) {
  (void)argument;
  tb_participant_options options = TB_PARTICIPANT_OPTIONS_INIT;
  options.budget_bytes = 1 << 20;
  tb_participant* one = NULL;
  CHECK_OK(tb_participant_create(&options, &one));
  uint8_t id[16];
  uint8_t shared_id[16];
  CHECK_OK(tb_participant_id(one, id));
  CHECK_OK(tb_participant_id(NULL, shared_id));
  CHECK(memcmp(id, shared_id, sizeof id) != 0);
  char path[256];
  CHECK_OK(tb_participant_domain(one, path, sizeof path));
  CHECK(strcmp(path, getenv("TENSORBUS_DOMAIN")) == 0);
  CHECK_STATUS(tb_participant_domain(one, path, 3), TB_ERROR_INVALID_ARGUMENT);
  tb_publisher* publisher = NULL;
  CHECK_OK(tb_publisher_create(one, "frames", NULL, &publisher));
  tb_tensor tensor = TB_TENSOR_INIT;
  tb_loan* loan = filled(publisher, 1, &tensor);
  tb_arena_use use = TB_ARENA_USE_INIT;
  CHECK_OK(tb_participant_arena(one, TB_HOST, &use));
  CHECK(use.budget_bytes == 1 << 20 && use.blocks == 1 && use.used_bytes >= sizeof(float) * COUNT);
  const int64_t large[] = {1 << 20};
  const tb_layout layout = {TB_FLOAT64, 0, 1, large, NULL};
  tb_loan* none = NULL;
  CHECK_STATUS(tb_publisher_loan(publisher, &layout, TB_HOST, &none), TB_ERROR_OUT_OF_MEMORY);
  CHECK(none == NULL && strstr(tb_error_message(), "budget") != NULL);
  tb_loan_destroy(loan);
  tb_participant_destroy(one); /* its publisher lives on */
  CHECK_OK(tb_publisher_wait_for_subscribers(publisher, 0, LONG_NS));
  tb_publisher_destroy(publisher);
}

static void count_release(void* keeper) { ++*(int*)keeper; }

/* The keepers of a message are let go of, though one of its tensors makes no sense. */
static void check_keepers(tb_publisher* publisher) {
  int released = 0;
  tb_tensor tensors[3] = {TB_TENSOR_INIT, TB_TENSOR_INIT, TB_TENSOR_INIT}; /* of dtype 0 */
  for (int i = 0; i < 3; ++i) {
    tensors[i].release = count_release;
    tensors[i].keeper = &released;
  }
  tb_message message = TB_MESSAGE_INIT;
  message.tensors = tensors;
  message.tensor_count = 2;
  CHECK_STATUS(tb_publisher_publish(publisher, &message, NULL), TB_ERROR_INVALID_ARGUMENT);
  CHECK(released == 2);
  CHECK_STATUS(tb_publisher_publish(NULL, &message, NULL), TB_ERROR_INVALID_ARGUMENT);
  CHECK(released == 4);
  tensors[1].struct_size = 0; /* its own keeper is not known */
  message.tensor_count = 3;
  CHECK_STATUS(tb_publisher_publish(publisher, &message, NULL), TB_ERROR_INVALID_ARGUMENT);
  CHECK(released == 6);
}

/* What nobody could end is not made. */
static int count_publishers(const tb_publisher_info* info, void* context) {
  (void)info;
  ++*(int*)context;
  return 0;
}
static void check_nowhere_to_put_it(void) {
  CHECK_STATUS(tb_publisher_create(NULL, "nobody's", NULL, NULL), TB_ERROR_INVALID_ARGUMENT);
  int count = 0;
  CHECK_OK(tb_list_publishers(NULL, count_publishers, &count));
  CHECK(count == 0);
}

/* A GPU to bring tensors back to, where there is none. */
static void check_no_device(void) {
  CHECK(setenv("TENSORBUS_CUDA_DRIVER", "off", 1) == 0);
  tb_subscriber_options options = TB_SUBSCRIBER_OPTIONS_INIT;
  options.restores = 1;
  tb_subscriber* subscriber = NULL;
  CHECK_STATUS(tb_subscriber_create(NULL, "t", &options, &subscriber), TB_ERROR_UNSUPPORTED);
  tb_queue_options pinned = TB_QUEUE_OPTIONS_INIT;
  pinned.pin = 1;
  tb_queue* queue = NULL;
  CHECK_STATUS(tb_queue_create(NULL, &pinned, &queue), TB_ERROR_UNSUPPORTED);
  CHECK_OK(tb_queue_create(NULL, NULL, &queue));
  CHECK_OK(tb_queue_get_options(queue, &pinned));
  CHECK(pinned.pin == 0);
  CHECK_STATUS(tb_queue_pin(queue), TB_ERROR_UNSUPPORTED);
  tb_queue_destroy(queue);
  const tb_layout layout = {TB_FLOAT32, 0, 1, shape, NULL};
  tb_ipc_handle handle = TB_IPC_HANDLE_INIT;
  tb_sample* sample = NULL;
  CHECK_STATUS(tb_ipc_open(&handle, &layout, &sample), TB_ERROR_UNSUPPORTED);
  CHECK(strstr(tb_error_message(), "TENSORBUS_CUDA_DRIVER=off") != NULL);
  CHECK_STATUS(tb_ipc_handle_of(shape, sizeof shape, &handle), TB_ERROR_UNSUPPORTED);
  handle.device = TB_HOST;
  CHECK_STATUS(tb_ipc_open(&handle, &layout, &sample), TB_ERROR_INVALID_ARGUMENT);
}

static void test_mistakes(const char* argument) {
  (void)argument;
  tb_publisher* publisher = NULL;
  CHECK_STATUS(tb_publisher_create(NULL, NULL, NULL, &publisher), TB_ERROR_INVALID_ARGUMENT);
  CHECK(strstr(tb_error_message(), "topic is NULL") != NULL);
  CHECK_STATUS(tb_publisher_create(NULL, "", NULL, &publisher), TB_ERROR_INVALID_ARGUMENT);
  check_nowhere_to_put_it();
  check_no_device();
  tb_subscriber_options access = TB_SUBSCRIBER_OPTIONS_INIT;
  access.access = 7;
  tb_subscriber* subscriber = NULL;
  CHECK_STATUS(tb_subscriber_create(NULL, "t", &access, &subscriber), TB_ERROR_INVALID_ARGUMENT);
  CHECK_OK(tb_publisher_create(NULL, "t", NULL, &publisher));
  const tb_layout bad[] = {{TB_FLOAT32, 0, 65, shape, NULL},
                           {TB_FLOAT32, 0, 1, NULL, NULL},
                           {200, 0, 1, shape, NULL},
                           {TB_FLOAT32, 0, 1, (const int64_t[]){-1}, NULL}};
  tb_loan* loan = NULL;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i)
    CHECK_STATUS(tb_publisher_loan(publisher, &bad[i], TB_HOST, &loan), TB_ERROR_INVALID_ARGUMENT);
  CHECK_STATUS(tb_publisher_loan(publisher, &bad[0], -2, &loan), TB_ERROR_INVALID_ARGUMENT);
  CHECK_STATUS(tb_publisher_publish_loan(publisher, &loan, NULL, NULL), TB_ERROR_INVALID_ARGUMENT);
  CHECK_STATUS(tb_publisher_publish_loan(NULL, &loan, NULL, NULL), TB_ERROR_INVALID_ARGUMENT);
  tb_message message = TB_MESSAGE_INIT;
  message.tensor_count = 1;
  CHECK_STATUS(tb_publisher_publish(publisher, &message, NULL), TB_ERROR_INVALID_ARGUMENT);
  message.tensor_count = 0;
  message.field_bytes = 1;
  CHECK_STATUS(tb_publisher_publish(publisher, &message, NULL), TB_ERROR_INVALID_ARGUMENT);
  check_keepers(publisher);
  tb_publisher_destroy(publisher);
  tb_publisher_destroy(NULL);
  tb_subscriber_destroy(NULL);
  tb_loan_destroy(NULL);
  tb_sample_release(NULL);
  tb_queue_destroy(NULL);
  tb_share_destroy(NULL);
  CHECK(tb_dtype_named("float8_e4m3fn") == 17 && tb_dtype_named("x") == 0);
  CHECK(strcmp(tb_dtype_name(TB_BFLOAT16), "bfloat16") == 0 && tb_dtype_bytes(TB_COMPLEX128) == 16);
  CHECK(strcmp(tb_dtype_name(200), "") == 0 && strcmp(tb_status_name(99), "") == 0);
}

/* What another thread met is its own. */
static void* fail_elsewhere(void* context) {
  (void)context;
  CHECK(strcmp(tb_error_message(), "") == 0);
  CHECK(tb_sample_tensor(NULL, 0, NULL) == TB_ERROR_INVALID_ARGUMENT);
  return NULL;
}
static void test_messages(const char* argument) {
  (void)argument;
  tb_publisher* publisher = NULL;
  CHECK_STATUS(tb_publisher_create(NULL, "", NULL, &publisher), TB_ERROR_INVALID_ARGUMENT);
  char before[200];
  snprintf(before, sizeof before, "%s", tb_error_message());
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, fail_elsewhere, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(strcmp(before, tb_error_message()) == 0 && before[0] != '\0');
}

/* A struct as an older header, and as a newer one, has it. */
static void test_sizes(const char* argument) {
  (void)argument;
  struct {
    tb_publisher_options known;
    uint64_t newer;
  } options = {TB_PUBLISHER_OPTIONS_INIT, 0};
  options.known.struct_size = sizeof options;
  tb_publisher* publisher = NULL;
  CHECK_OK(tb_publisher_create(NULL, "t", &options.known, &publisher));
  tb_publisher* second = NULL;
  options.newer = 1;
  CHECK_STATUS(tb_publisher_create(NULL, "t", &options.known, &second), TB_ERROR_VERSION_MISMATCH);
  options.known.struct_size = 0;
  CHECK_STATUS(tb_publisher_create(NULL, "t", &options.known, &second), TB_ERROR_INVALID_ARGUMENT);
  options.known.struct_size = offsetof(tb_publisher_options, type); /* before there was a type */
  options.known.type = (const char*)1;
  CHECK_OK(tb_publisher_create(NULL, "t", &options.known, &second));
  tb_publisher_destroy(second);

  struct {
    tb_publisher_stats known;
    uint64_t newer;
  } stats = {TB_PUBLISHER_STATS_INIT, 42};
  stats.known.struct_size = sizeof stats;
  CHECK_OK(tb_publisher_get_stats(publisher, &stats.known));
  CHECK(stats.newer == 42 && stats.known.struct_size == sizeof stats);
  stats.known.struct_size = offsetof(tb_publisher_stats, bad_returns);
  stats.known.bad_returns = 42;
  CHECK_OK(tb_publisher_get_stats(publisher, &stats.known));
  CHECK(stats.known.bad_returns == 42);

  /* Tensors of a message, each larger than ours. */
  struct {
    tb_tensor known;
    uint64_t newer;
  } tensors[2] = {{TB_TENSOR_INIT, 0}, {TB_TENSOR_INIT, 0}};
  float own[COUNT] = {0};
  for (int i = 0; i < 2; ++i) {
    tensors[i].known.struct_size = sizeof tensors[i];
    tensors[i].known.data = own;
    tensors[i].known.layout.dtype = TB_FLOAT32;
    tensors[i].known.layout.dims = 1;
    tensors[i].known.layout.shape = shape;
  }
  tb_message message = TB_MESSAGE_INIT;
  message.tensors = &tensors[0].known;
  message.tensor_count = 2;
  CHECK_OK(tb_publisher_publish(publisher, &message, NULL));
  tb_publisher_destroy(publisher);

  tb_versions versions = TB_VERSIONS_INIT;
  tb_library_versions(&versions);
  CHECK(versions.abi == versions.major && versions.protocol > 0 && versions.layout > 0);
}

static void test_types(const char* argument) {
  (void)argument;
  tb_publisher_options publishes = TB_PUBLISHER_OPTIONS_INIT;
  publishes.type = "a.Type\nx: int";
  tb_publisher* publisher = publisher_of("frames", &publishes);
  tb_subscriber_options expects = TB_SUBSCRIBER_OPTIONS_INIT;
  expects.type = "a.Other\ny: int";
  tb_subscriber* subscriber = subscriber_of("frames", &expects);
  tb_sample* sample = NULL;
  CHECK_STATUS(tb_subscriber_receive(subscriber, LONG_NS, NULL, &sample), TB_ERROR_TYPE_MISMATCH);
  char why[300];
  CHECK_OK(tb_subscriber_last_refusal(subscriber, why, sizeof why));
  CHECK(strstr(why, "a.Type") != NULL);
  CHECK_OK(tb_subscriber_last_refusal(subscriber, why, 4));
  CHECK(strlen(why) == 3);
  expects.type = "a.Type\nno field";
  tb_subscriber* second = NULL;
  CHECK_STATUS(tb_subscriber_create(NULL, "frames", &expects, &second), TB_ERROR_INVALID_ARGUMENT);
  tb_subscriber_destroy(subscriber);
  tb_publisher_destroy(publisher);
}

static const struct {
  const char* name;
  void (*run)(const char* argument);
} tests[] = {
    {"publish", test_publish},
    {"isolated", test_isolated},
    {"receive", test_receive},
    {"receive_many", test_receive_many},
    {"rows", test_rows},
    {"ends", test_ends},
    {"wait", test_wait},
    {"queue", test_queue},
    {"get", test_get},
    {"share", test_share},
    {"attach", test_attach},
    {"list", test_list},
    {"inspect", test_inspect},
    {"mistakes", test_mistakes},
    {"participants", test_participants},
    {"messages", test_messages},
    {"sizes", test_sizes},
    {"types", test_types},
};

static char domain[] = "/tmp/tensorbus-c-XXXXXX";

static int remove_one(const char* path, const struct stat* status, int kind, struct FTW* walk) {
  (void)status, (void)kind, (void)walk;
  return remove(path);
}
static void remove_domain(void) { (void)nftw(domain, remove_one, 8, FTW_DEPTH | FTW_PHYS); }

/* The second process of a test is told by the first. */
static void make_domain(void) {
  CHECK(mkdtemp(domain) != NULL);
  CHECK(setenv("TENSORBUS_DOMAIN", domain, 1) == 0);
  CHECK(setenv("TENSORBUS_C_TEST", "1", 1) == 0);
  CHECK(atexit(remove_domain) == 0);
}

int main(int count, char** arguments) {
  program = arguments[0];
  if (getenv("TENSORBUS_C_TEST") == NULL) make_domain();
  for (size_t i = 0; count > 1 && i < sizeof tests / sizeof tests[0]; ++i) {
    if (strcmp(arguments[1], tests[i].name) != 0) continue;
    tests[i].run(count > 2 ? arguments[2] : "");
    return 0;
  }
  fprintf(stderr, "no such test\n");
  return 2;
}
