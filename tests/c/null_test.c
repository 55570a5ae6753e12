/* NULL in the place of every pointer that a function of the C interface takes: a status and a text,
 * never a crash. Functions without a status do nothing. */
#define _GNU_SOURCE
#include <ftw.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* The text names the argument, or is that of another one that came first. */
#define CHECK_REFUSED(call, name)                               \
  do {                                                          \
    CHECK_STATUS(call, TB_ERROR_INVALID_ARGUMENT);              \
    CHECK(strstr(tb_error_message(), name " is NULL") != NULL); \
  } while (0)

static const int64_t shape[] = {3};
static const tb_layout layout = {TB_FLOAT32, 0, 1, shape, NULL};
static const tb_give_up nobody = {NULL, NULL};
static float own[3];

static int tell_publisher(const tb_publisher_info* info, void* context) {
  (void)info, (void)context;
  return 0;
}
static int tell_node(const tb_node_info* info, void* context) {
  (void)info, (void)context;
  return 0;
}

static tb_message message_of(const tb_tensor* tensor) {
  tb_message message = TB_MESSAGE_INIT;
  message.tensors = tensor;
  message.tensor_count = 1;
  return message;
}

static tb_tensor tensor_of(void) {
  tb_tensor tensor = TB_TENSOR_INIT;
  tensor.data = own;
  tensor.layout = layout;
  return tensor;
}

static void test_listing(void) {
  CHECK_REFUSED(tb_list_publishers(NULL, NULL, NULL), "tell");
  CHECK_REFUSED(tb_list_nodes(NULL, NULL, NULL), "tell");
  CHECK_OK(tb_list_publishers(NULL, tell_publisher, NULL));
  CHECK_OK(tb_list_nodes(NULL, tell_node, NULL));
  CHECK_REFUSED(tb_wait_for_topic(NULL, NULL, TB_NOW, NULL), "topic");
  CHECK_REFUSED(tb_wait_for_topic(NULL, "t", TB_NOW, &nobody), "give_up->asked");
  CHECK_REFUSED(tb_wait_for_node(NULL, NULL, TB_NOW, NULL), "name");
  CHECK_REFUSED(tb_wait_for_node(NULL, "n", TB_NOW, &nobody), "give_up->asked");
  tb_node_name* node = NULL;
  CHECK_REFUSED(tb_node_name_create(NULL, "n", NULL), "node");
  CHECK_REFUSED(tb_node_name_create(NULL, NULL, &node), "name");
  tb_node_name_destroy(NULL);
}

static void test_inspection(void) {
  CHECK_REFUSED(tb_inspect(NULL, TB_NOW, NULL), "inspection");
  tb_inspection* inspection = NULL;
  CHECK_OK(tb_inspect(NULL, TB_NOW, &inspection));
  tb_inspection_destroy(inspection);
  tb_inspection_destroy(NULL);
}

static void test_participants(void) {
  CHECK_REFUSED(tb_participant_create(NULL, NULL), "participant");
  CHECK_REFUSED(tb_participant_id(NULL, NULL), "id");
  CHECK_REFUSED(tb_participant_domain(NULL, NULL, 4096), "path");
  CHECK_STATUS(tb_participant_domain(NULL, NULL, 0), TB_ERROR_INVALID_ARGUMENT);
  CHECK_REFUSED(tb_participant_arena(NULL, TB_HOST, NULL), "use");
  tb_participant_destroy(NULL);
  tb_library_versions(NULL);
  CHECK(strcmp(tb_status_name(12345), "") == 0);
}

static void test_publishers(void) {
  tb_publisher* publisher = NULL;
  CHECK_REFUSED(tb_publisher_create(NULL, "t", NULL, NULL), "publisher");
  CHECK_REFUSED(tb_publisher_create(NULL, NULL, NULL, &publisher), "topic");
  CHECK_OK(tb_publisher_create(NULL, "t", NULL, &publisher));
  tb_loan* loan = NULL;
  CHECK_REFUSED(tb_publisher_loan(NULL, &layout, TB_HOST, &loan), "publisher");
  CHECK_REFUSED(tb_publisher_loan(publisher, NULL, TB_HOST, &loan), "layout");
  CHECK_REFUSED(tb_publisher_loan(publisher, &layout, TB_HOST, NULL), "loan");
  const tb_layout no_shape = {TB_FLOAT32, 0, 1, NULL, NULL};
  CHECK_REFUSED(tb_publisher_loan(publisher, &no_shape, TB_HOST, &loan), "layout.shape");
  CHECK_REFUSED(tb_publisher_publish_loan(publisher, NULL, NULL, NULL), "loan");
  CHECK_REFUSED(tb_publisher_publish_loan(publisher, &loan, NULL, NULL), "*loan");
  CHECK_OK(tb_publisher_loan(publisher, &layout, TB_HOST, &loan));
  CHECK_REFUSED(tb_publisher_publish_loan(NULL, &loan, NULL, NULL), "publisher");
  CHECK_REFUSED(tb_loan_tensor(loan, NULL), "tensor");
  tb_tensor tensor = tensor_of();
  CHECK_REFUSED(tb_loan_tensor(NULL, &tensor), "loan");
  CHECK_OK(tb_publisher_publish_loan(publisher, &loan, NULL, NULL));
  const tb_message message = message_of(&tensor);
  CHECK_REFUSED(tb_publisher_publish(publisher, NULL, NULL), "message");
  CHECK_REFUSED(tb_publisher_publish(NULL, &message, NULL), "publisher");
  CHECK_REFUSED(tb_publisher_publish_within(publisher, NULL, TB_NOW, NULL, NULL), "message");
  CHECK_REFUSED(tb_publisher_publish_within(NULL, &message, TB_NOW, NULL, NULL), "publisher");
  CHECK_REFUSED(tb_publisher_publish_many(publisher, NULL, TB_NOW, NULL, NULL), "rows");
  CHECK_REFUSED(tb_publisher_publish_many(NULL, &tensor, TB_NOW, NULL, NULL), "publisher");
  CHECK_REFUSED(tb_publisher_publish_within(publisher, &message, TB_NOW, &nobody, NULL),
                "give_up->asked");
  const tb_message without_tensors = message_of(NULL);
  CHECK_REFUSED(tb_publisher_publish(publisher, &without_tensors, NULL), "message.tensors");
  tb_message without_fields = TB_MESSAGE_INIT;
  without_fields.field_bytes = 1;
  CHECK_REFUSED(tb_publisher_publish(publisher, &without_fields, NULL), "message.fields");
  CHECK_REFUSED(tb_publisher_wait_for_subscribers(NULL, 1, TB_NOW), "publisher");
  CHECK_REFUSED(tb_publisher_get_stats(publisher, NULL), "stats");
  tb_publisher_stats stats = TB_PUBLISHER_STATS_INIT;
  CHECK_REFUSED(tb_publisher_get_stats(NULL, &stats), "publisher");
  tb_publisher_close(NULL);
  tb_name_parents(NULL, 3);
  tb_publisher_destroy(NULL);
  tb_loan_destroy(NULL);
  tb_publisher_destroy(publisher);
}

static void test_subscribers(void) {
  tb_subscriber* subscriber = NULL;
  tb_sample* sample = NULL;
  size_t count = 0;
  CHECK_REFUSED(tb_subscriber_create(NULL, "t", NULL, NULL), "subscriber");
  CHECK_REFUSED(tb_subscriber_create(NULL, NULL, NULL, &subscriber), "topic");
  CHECK_OK(tb_subscriber_create(NULL, "t", NULL, &subscriber));
  CHECK_REFUSED(tb_subscriber_receive(NULL, TB_NOW, NULL, &sample), "subscriber");
  CHECK_REFUSED(tb_subscriber_receive(subscriber, TB_NOW, NULL, NULL), "sample");
  CHECK_REFUSED(tb_subscriber_receive(subscriber, LONG_NS, &nobody, &sample), "give_up->asked");
  CHECK_REFUSED(tb_subscriber_receive_many(NULL, &sample, 1, TB_NOW, NULL, &count), "subscriber");
  CHECK_REFUSED(tb_subscriber_receive_many(subscriber, NULL, 1, TB_NOW, NULL, &count), "samples");
  CHECK_REFUSED(tb_subscriber_receive_many(subscriber, &sample, 1, TB_NOW, NULL, NULL), "count");
  const tb_layout rows = {TB_UINT8, 0, 1, &(int64_t){1}, NULL};
  unsigned char row = 0;
  CHECK_REFUSED(tb_subscriber_receive_into(NULL, &row, &rows, TB_NOW, NULL, &count), "subscriber");
  CHECK_REFUSED(tb_subscriber_receive_into(subscriber, &row, NULL, TB_NOW, NULL, &count), "layout");
  CHECK_REFUSED(tb_subscriber_receive_into(subscriber, &row, &rows, TB_NOW, NULL, NULL), "count");
  CHECK_REFUSED(tb_subscriber_receive_into(subscriber, NULL, &rows, TB_NOW, NULL, &count), "rows");
  CHECK_REFUSED(tb_subscriber_receive_many(subscriber, &sample, 1, LONG_NS, &nobody, &count),
                "give_up->asked");
  CHECK(tb_subscriber_ready(NULL) == 0);
  int descriptor = -1;
  CHECK_REFUSED(tb_subscriber_event_descriptor(NULL, &descriptor), "subscriber");
  CHECK_REFUSED(tb_subscriber_event_descriptor(subscriber, NULL), "descriptor");
  CHECK_REFUSED(tb_subscriber_wait_for_publishers(NULL, 1, TB_NOW), "subscriber");
  tb_subscriber_stats stats = TB_SUBSCRIBER_STATS_INIT;
  CHECK_REFUSED(tb_subscriber_get_stats(NULL, &stats), "subscriber");
  CHECK_REFUSED(tb_subscriber_get_stats(subscriber, NULL), "stats");
  char why[4];
  CHECK_REFUSED(tb_subscriber_last_refusal(NULL, why, sizeof why), "subscriber");
  CHECK_REFUSED(tb_subscriber_last_refusal(NULL, NULL, 0), "subscriber");
  CHECK_REFUSED(tb_subscriber_last_refusal(subscriber, NULL, sizeof why), "text");
  tb_subscriber_close(NULL);
  tb_subscriber_destroy(NULL);
  tb_subscriber_destroy(subscriber);
}

static void test_samples(void) {
  tb_tensor tensor = TB_TENSOR_INIT;
  size_t bytes = 7;
  tb_sample* copy = NULL;
  tb_sample_retain(NULL);
  tb_sample_release(NULL);
  tb_sample_get_header(NULL, NULL);
  CHECK(tb_sample_tensor_count(NULL) == 0 && tb_sample_intact(NULL) == 0);
  CHECK(tb_sample_fields(NULL, &bytes) == NULL && bytes == 0);
  CHECK(tb_sample_fields(NULL, NULL) == NULL);
  CHECK_REFUSED(tb_sample_tensor(NULL, 0, &tensor), "sample");
  CHECK_REFUSED(tb_sample_tensor_at(NULL, "x", &tensor), "sample");
  CHECK_REFUSED(tb_sample_use_on(NULL, 0, NULL, 0), "sample");
  CHECK_REFUSED(tb_sample_copy(NULL, &copy), "sample");
  CHECK(tb_dtype_named(NULL) == 0 && strcmp(tb_dtype_name(255), "") == 0);

  const tb_tensor own_tensor = tensor_of();
  const tb_message message = message_of(&own_tensor);
  tb_share* share = NULL;
  tb_sample* sample = NULL;
  CHECK_REFUSED(tb_share_create(NULL, NULL, NULL, &share), "message");
  CHECK_REFUSED(tb_share_create(NULL, &message, NULL, NULL), "share");
  CHECK_OK(tb_share_create(NULL, &message, NULL, &share));
  const char* const handle = tb_share_handle(share);
  CHECK_REFUSED(tb_attach(NULL, NULL, TB_ACCESS_READ, TB_NOW, NULL, &sample), "handle");
  CHECK_REFUSED(tb_attach(NULL, handle, TB_ACCESS_READ, TB_NOW, NULL, NULL), "sample");
  CHECK_REFUSED(tb_attach(NULL, handle, TB_ACCESS_READ, TB_NOW, &nobody, &sample),
                "give_up->asked");
  CHECK_OK(tb_attach(NULL, handle, TB_ACCESS_READ, LONG_NS, NULL, &sample));
  CHECK_REFUSED(tb_sample_tensor(sample, 0, NULL), "tensor");
  CHECK_REFUSED(tb_sample_tensor_at(sample, NULL, &tensor), "key");
  CHECK_REFUSED(tb_sample_copy(sample, NULL), "copy");
  tb_sample_get_header(sample, NULL);
  (void)tb_sample_fields(sample, NULL);
  tb_sample_release(sample);
  CHECK_REFUSED(tb_handle_check(NULL), "handle");
  CHECK(strcmp(tb_share_handle(NULL), "") == 0 && tb_share_is_open(NULL) == 0);
  tb_share_destroy(NULL);
  tb_share_destroy(share);
  tb_loan* memory = NULL;
  CHECK_REFUSED(tb_empty(NULL, NULL, TB_HOST, 0, &memory), "layout");
  CHECK_REFUSED(tb_empty(NULL, &layout, TB_HOST, 0, NULL), "memory");
  CHECK(tb_is_shared(NULL, NULL, 1) == 0);
}

static void test_queues(void) {
  const tb_tensor tensor = tensor_of();
  const tb_message item = message_of(&tensor);
  tb_queue* queue = NULL;
  tb_queue* other = NULL;
  tb_pending* pending = NULL;
  tb_sample* got = NULL;
  CHECK_REFUSED(tb_queue_create(NULL, NULL, NULL), "queue");
  CHECK_OK(tb_queue_create(NULL, NULL, &queue));
  const char* const address = tb_queue_address(queue);
  CHECK_REFUSED(tb_queue_open(NULL, NULL, TB_NOW, NULL, &other), "address_or_name");
  CHECK_REFUSED(tb_queue_open(NULL, address, TB_NOW, NULL, NULL), "queue");
  CHECK_REFUSED(tb_queue_open(NULL, address, TB_NOW, &nobody, &other), "give_up->asked");
  CHECK_REFUSED(tb_queue_at(NULL, NULL, NULL, &other), "address");
  CHECK_REFUSED(tb_queue_at(NULL, address, NULL, NULL), "queue");
  CHECK_REFUSED(tb_queue_pin(NULL), "queue");
  CHECK(strcmp(tb_queue_address(NULL), "") == 0 && tb_queue_made_here(NULL) == 0);
  tb_queue_options options = TB_QUEUE_OPTIONS_INIT;
  CHECK_REFUSED(tb_queue_get_options(NULL, &options), "queue");
  CHECK_REFUSED(tb_queue_get_options(queue, NULL), "options");
  CHECK_REFUSED(tb_queue_put(NULL, &item, TB_NOW, NULL), "queue");
  CHECK_REFUSED(tb_queue_put(queue, NULL, TB_NOW, NULL), "item");
  CHECK_REFUSED(tb_queue_put(queue, &item, TB_NOW, &nobody), "give_up->asked");
  CHECK_REFUSED(tb_queue_get(NULL, TB_NOW, NULL, &got), "queue");
  CHECK_REFUSED(tb_queue_get(queue, TB_NOW, NULL, NULL), "item");
  CHECK_REFUSED(tb_queue_get(queue, TB_NOW, &nobody, &got), "give_up->asked");
  CHECK_REFUSED(tb_queue_task_done(NULL, NULL), "queue");
  CHECK_REFUSED(tb_queue_task_done(queue, &nobody), "give_up->asked");
  CHECK_REFUSED(tb_queue_join(NULL, TB_NOW, NULL), "queue");
  CHECK_REFUSED(tb_queue_join(queue, TB_NOW, &nobody), "give_up->asked");
  tb_queue_stats stats = TB_QUEUE_STATS_INIT;
  CHECK_REFUSED(tb_queue_get_stats(NULL, NULL, &stats), "queue");
  CHECK_REFUSED(tb_queue_get_stats(queue, NULL, NULL), "stats");
  CHECK_REFUSED(tb_queue_close(NULL, NULL), "queue");
  CHECK_REFUSED(tb_queue_start_put(NULL, &item, &pending), "queue");
  CHECK_REFUSED(tb_queue_start_put(queue, NULL, &pending), "item");
  CHECK_REFUSED(tb_queue_start_put(queue, &item, NULL), "pending");
  CHECK_REFUSED(tb_queue_start_get(NULL, &pending), "queue");
  CHECK_REFUSED(tb_queue_start_get(queue, NULL), "pending");
  CHECK_REFUSED(tb_queue_start_join(NULL, &pending), "queue");
  CHECK_REFUSED(tb_queue_start_join(queue, NULL), "pending");
  CHECK_REFUSED(tb_pending_take(NULL, &got), "pending");
  CHECK_REFUSED(tb_queue_put_now(NULL, &item), "queue");
  CHECK_REFUSED(tb_queue_put_now(queue, NULL), "item");
  CHECK_REFUSED(tb_queue_get_while(queue, NULL, 0, NULL, &got), "unanswered");
  CHECK(tb_pending_descriptor(NULL) == -1);
  CHECK_OK(tb_queue_start_get(queue, &pending));
  CHECK_REFUSED(tb_pending_take(pending, NULL), "item");
  tb_pending_destroy(pending);
  tb_pending_destroy(NULL);
  tb_queue_destroy(NULL);
  tb_queue_destroy(queue);
}

static void test_ipc_handles(void) {
  tb_ipc_handle handle = TB_IPC_HANDLE_INIT;
  tb_sample* sample = NULL;
  CHECK_REFUSED(tb_ipc_handle_of(own, sizeof own, NULL), "handle");
  CHECK_REFUSED(tb_ipc_handle_of(NULL, 1, &handle), "data");
  CHECK_REFUSED(tb_ipc_open(NULL, &layout, &sample), "handle");
  CHECK_REFUSED(tb_ipc_open(&handle, NULL, &sample), "layout");
  CHECK_REFUSED(tb_ipc_open(&handle, &layout, NULL), "sample");
}

static void test_files(void) {
  tb_tensor tensor = TB_TENSOR_INIT;
  tb_file* file = NULL;
  CHECK_REFUSED(tb_file_map(NULL, NULL, &file), "path");
  CHECK_REFUSED(tb_file_map("/dev/null", NULL, NULL), "file");
  tb_file_options options = TB_FILE_OPTIONS_INIT;
  options.dims = 1;
  CHECK_REFUSED(tb_file_map("/dev/null", &options, &file), "shape");
  tb_file_retain(NULL);
  tb_file_release(NULL);
  CHECK(tb_file_tensor_count(NULL) == 0 && tb_file_tensor_name(NULL, 0) == NULL);
  CHECK(tb_file_metadata_count(NULL) == 0 && tb_file_metadata_value(NULL, 0) == NULL);
  CHECK(tb_file_metadata_key(NULL, 0) == NULL);
  CHECK_REFUSED(tb_file_tensor(NULL, 0, &tensor), "file");
  CHECK_REFUSED(tb_file_tensor_named(NULL, "x", &tensor), "file");
  CHECK_REFUSED(tb_file_check(NULL), "file");
  CHECK_REFUSED(tb_file_flush(NULL), "file");

  char folder[] = "/tmp/tensorbus-c-XXXXXX";
  CHECK(mkdtemp(folder) != NULL);
  char path[sizeof folder + sizeof "/raw"];
  (void)snprintf(path, sizeof path, "%s/raw", folder);
  options = (tb_file_options)TB_FILE_OPTIONS_INIT;
  options.mode = TB_FILE_CREATE;
  options.dtype = TB_FLOAT32;
  options.dims = 1;
  options.shape = shape;
  CHECK_OK(tb_file_map(path, &options, &file));
  CHECK_REFUSED(tb_file_tensor(file, 0, NULL), "tensor");
  CHECK_OK(tb_file_tensor_named(file, NULL, &tensor)); /* a file without names */
  tb_file_release(file);
  CHECK(remove(path) == 0 && remove(folder) == 0);
}

static char domain[] = "/tmp/tensorbus-c-XXXXXX";

static int remove_one(const char* path, const struct stat* status, int kind, struct FTW* walk) {
  (void)status, (void)kind, (void)walk;
  return remove(path);
}
static void remove_domain(void) { (void)nftw(domain, remove_one, 8, FTW_DEPTH | FTW_PHYS); }

static void test_players(const tb_recording* recording) {
  char text[128];
  tb_player_options options = TB_PLAYER_OPTIONS_INIT;
  tb_player_stats stats = TB_PLAYER_STATS_INIT;
  tb_player* player = NULL;
  const char* const topics[] = {"t"};
  CHECK_REFUSED(tb_player_create(NULL, NULL, &player), "recording");
  CHECK_REFUSED(tb_player_create(recording, NULL, NULL), "player");
  options.topic_count = 1;
  CHECK_REFUSED(tb_player_create(recording, &options, &player), "topics");
  options.topic_count = 0;
  options.renamed_count = 1;
  CHECK_REFUSED(tb_player_create(recording, &options, &player), "renamed");
  options.renamed = topics;
  CHECK_REFUSED(tb_player_create(recording, &options, &player), "new_names");
  CHECK_OK(tb_player_create(recording, NULL, &player));
  CHECK_REFUSED(tb_player_pause(NULL), "player");
  CHECK_REFUSED(tb_player_resume(NULL), "player");
  CHECK_REFUSED(tb_player_step(NULL, 1), "player");
  CHECK_REFUSED(tb_player_set_rate(NULL, 1), "player");
  CHECK(tb_player_set_rate(player, 0) == TB_ERROR_INVALID_ARGUMENT);
  CHECK_REFUSED(tb_player_wait(NULL, TB_NOW, NULL), "player");
  CHECK_REFUSED(tb_player_wait_for_subscribers(NULL, TB_NOW, NULL), "player");
  CHECK_REFUSED(tb_player_get_stats(NULL, &stats), "player");
  CHECK_REFUSED(tb_player_get_stats(player, NULL), "stats");
  CHECK_REFUSED(tb_player_last_error(player, NULL, 1), "text");
  CHECK_OK(tb_player_last_error(player, text, sizeof text));
  CHECK(strcmp(text, "") == 0);
  CHECK_OK(tb_player_get_stats(player, &stats));
  CHECK(stats.messages == 0 && stats.left == 0 && stats.rate == 1.0);
  CHECK_REFUSED(tb_player_close(NULL), "player");
  CHECK_OK(tb_player_close(player));
  tb_player_destroy(player);
  tb_player_destroy(NULL);
}

static void test_recordings(void) {
  char path[128], text[128];
  tb_recorder_options options = TB_RECORDER_OPTIONS_INIT;
  tb_recorder* recorder = NULL;
  tb_recorder_stats stats = TB_RECORDER_STATS_INIT;
  tb_recording* recording = NULL;
  tb_recorded_topic topic = TB_RECORDED_TOPIC_INIT;
  tb_sample* sample = NULL;
  const char* const topics[] = {"t"};
  uint64_t time = 0;
  uint32_t indices[4];
  size_t count = 7;
  CHECK(snprintf(path, sizeof path, "%s/run.mcap", domain) > 0);

  CHECK_REFUSED(tb_recorder_create(NULL, NULL, &recorder), "path");
  CHECK(tb_recorder_create(path, NULL, &recorder) == TB_ERROR_INVALID_ARGUMENT);
  options.topic_count = 1;
  CHECK_REFUSED(tb_recorder_create(path, &options, &recorder), "topics");
  options.topics = topics;
  CHECK_REFUSED(tb_recorder_create(path, &options, NULL), "recorder");
  options.compressed_count = 1;
  CHECK_REFUSED(tb_recorder_create(path, &options, &recorder), "compressed_topics");
  options.compressed_topics = topics;
  CHECK_REFUSED(tb_recorder_create(path, &options, &recorder), "compressions");
  options.compressed_count = 0;
  CHECK_OK(tb_recorder_create(path, &options, &recorder));
  CHECK_REFUSED(tb_recorder_get_stats(NULL, &stats), "recorder");
  CHECK_REFUSED(tb_recorder_get_stats(recorder, NULL), "stats");
  CHECK_REFUSED(tb_recorder_last_error(NULL, text, sizeof text), "recorder");
  CHECK_REFUSED(tb_recorder_last_error(recorder, NULL, 1), "text");
  CHECK_OK(tb_recorder_last_error(recorder, NULL, 0));
  CHECK_OK(tb_recorder_last_error(recorder, text, sizeof text));
  CHECK(strcmp(text, "") == 0);
  CHECK_REFUSED(tb_recorder_wait(NULL, TB_NOW, NULL), "recorder");
  CHECK_REFUSED(tb_recorder_snapshot(NULL, TB_NOW, NULL, text, sizeof text), "recorder");
  CHECK_REFUSED(tb_recorder_snapshot(recorder, TB_NOW, NULL, NULL, 1), "path");
  CHECK(tb_recorder_snapshot(recorder, TB_NOW, NULL, text, sizeof text) ==
        TB_ERROR_INVALID_ARGUMENT);
  CHECK_REFUSED(tb_recorder_close(NULL), "recorder");
  CHECK_OK(tb_recorder_close(recorder));
  CHECK_OK(tb_recorder_get_stats(recorder, &stats));
  CHECK(stats.messages == 0 && stats.topics == 1 && stats.files == 1);
  tb_recorder_destroy(recorder);
  tb_recorder_destroy(NULL);

  CHECK_REFUSED(tb_recording_open(NULL, &recording), "path");
  CHECK_REFUSED(tb_recording_open(path, NULL), "recording");
  CHECK_OK(tb_recording_open(path, &recording));
  CHECK(tb_recording_message_count(NULL) == 0 && tb_recording_message_count(recording) == 0);
  CHECK(tb_recording_topic_count(NULL) == 0 && tb_recording_topic_count(recording) == 0);
  CHECK_REFUSED(tb_recording_time(NULL, 0, &time), "recording");
  CHECK(tb_recording_time(recording, 0, &time) == TB_ERROR_INVALID_ARGUMENT);
  CHECK_REFUSED(tb_recording_get(NULL, 0, &sample), "recording");
  CHECK_REFUSED(tb_recording_get(recording, 0, NULL), "sample");
  CHECK(tb_recording_get(recording, 0, &sample) == TB_ERROR_INVALID_ARGUMENT);
  CHECK_REFUSED(tb_recording_topic(NULL, 0, &topic), "recording");
  CHECK(tb_recording_topic(recording, 0, &topic) == TB_ERROR_INVALID_ARGUMENT);
  CHECK_REFUSED(tb_recording_select(NULL, NULL, 0, 0, 1, indices, 4, &count), "recording");
  CHECK_REFUSED(tb_recording_select(recording, NULL, 1, 0, 1, indices, 4, &count), "topics");
  CHECK_REFUSED(tb_recording_select(recording, NULL, 0, 0, 1, indices, 4, NULL), "count");
  CHECK_OK(tb_recording_select(recording, topics, 1, 0, UINT64_MAX, indices, 4, &count));
  CHECK(count == 0);
  CHECK(tb_recording_about(NULL, "version") == NULL && tb_recording_about(recording, NULL) == NULL);
  CHECK(tb_recording_about(recording, "version") != NULL);
  CHECK(tb_recording_about(recording, "nothing") == NULL);
  CHECK(strcmp(tb_recording_recovered(NULL), "") == 0);
  CHECK(strcmp(tb_recording_damage(recording), "") == 0);
  CHECK_REFUSED(tb_recording_check(NULL), "recording");
  CHECK_OK(tb_recording_check(recording));
  test_players(recording);
  tb_recording_destroy(recording);
  tb_recording_destroy(NULL);
  CHECK(remove(path) == 0);
}

int main(void) {
  CHECK(mkdtemp(domain) != NULL && setenv("TENSORBUS_DOMAIN", domain, 1) == 0);
  CHECK(atexit(remove_domain) == 0);
  test_listing();
  test_inspection();
  test_ipc_handles();
  test_participants();
  test_publishers();
  test_subscribers();
  test_samples();
  test_queues();
  test_files();
  test_recordings();
  return 0;
}
