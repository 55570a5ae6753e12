// Publishes what examples/hello/publisher.py publishes, from C: examples/hello/subscriber.py
// receives it, and so does examples/cpp/subscriber.
#include <stdio.h>
#include <string.h>
#include <tensorbus/tensorbus.h>
#include <time.h>

// The dict {"count": count, "multiples": <the first tensor>}, in MessagePack; a count below 128 is
// a byte.
static size_t write_fields(unsigned char* fields, int count) {
  static const char form[] =
      "\x82\xa5"
      "count"
      "?"
      "\xa9"
      "multiples"
      "\xd6\x01\0\0\0\0";
  memcpy(fields, form, sizeof form - 1);
  fields[7] = (unsigned char)count;
  return sizeof form - 1;
}

static int fail(void) {
  fprintf(stderr, "%s\n", tb_error_message());
  return 1;
}

int main(void) {
  tb_publisher* publisher = NULL;
  if (tb_publisher_create(NULL, "hello", NULL, &publisher) < 0) return fail();
  const int64_t shape[] = {5};
  const tb_layout layout = {TB_FLOAT32, 0, 1, shape, NULL};
  for (int count = 0; count < 100; ++count) {
    // A loan is shared memory: what is written into it is not copied any more.
    tb_loan* loan = NULL;
    tb_tensor tensor = TB_TENSOR_INIT;
    if (tb_publisher_loan(publisher, &layout, TB_HOST, &loan) < 0) return fail();
    if (tb_loan_tensor(loan, &tensor) < 0) return fail();
    for (int i = 0; i < 5; ++i) ((float*)tensor.data)[i] = (float)(i * count);

    unsigned char fields[64];
    tb_message message = TB_MESSAGE_INIT;
    message.tensors = &tensor;
    message.tensor_count = 1;
    message.fields = fields;
    message.field_bytes = write_fields(fields, count);
    if (tb_publisher_publish(publisher, &message, NULL) < 0) return fail();
    tb_loan_destroy(loan);  // its readers have it
    const struct timespec half_a_second = {0, 500000000};
    nanosleep(&half_a_second, NULL);
  }
  tb_publisher_destroy(publisher);
  return 0;
}
