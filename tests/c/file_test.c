/* Mapped files, from C: each test is a name on the command line, and has a folder of its own. */
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

#include "check.h"

#define COUNT 1000

static const int64_t shape[] = {COUNT};

static tb_file* mapped(const char* name, const tb_file_options* options, tb_tensor* tensor) {
  tb_file* file = NULL;
  CHECK_OK(tb_file_map(name, options, &file));
  CHECK_OK(tb_file_tensor(file, 0, tensor));
  return file;
}

static tb_file_options creating(void) {
  tb_file_options options = TB_FILE_OPTIONS_INIT;
  options.mode = TB_FILE_CREATE;
  options.shape = shape;
  options.dims = 1;
  options.dtype = TB_FLOAT32;
  return options;
}

static void test_files(void) {
  const tb_file_options creates = creating();
  tb_tensor written = TB_TENSOR_INIT;
  tb_file* file = mapped("numbers.npy", &creates, &written);
  CHECK(written.writable && written.device == TB_HOST && written.layout.shape[0] == COUNT);
  for (int i = 0; i < COUNT; ++i) ((float*)written.data)[i] = (float)i;
  CHECK_OK(tb_file_flush(file));
  CHECK(tb_file_tensor_count(file) == 1 && tb_file_tensor_name(file, 0) == NULL);

  tb_tensor read = TB_TENSOR_INIT;
  tb_file* reader = mapped("numbers.npy", NULL, &read); /* the file says what it is */
  CHECK(!read.writable && read.layout.dtype == TB_FLOAT32 && read.layout.dims == 1);
  tb_file_options privately = TB_FILE_OPTIONS_INIT;
  privately.mode = TB_FILE_COPY_ON_WRITE;
  tb_tensor own = TB_TENSOR_INIT;
  tb_file* copy = mapped("numbers.npy", &privately, &own);
  ((float*)own.data)[2] = 50;
  ((float*)written.data)[3] = 60;
  CHECK(((const float*)read.data)[2] == 2 && ((const float*)read.data)[3] == 60);
  CHECK_STATUS(tb_file_flush(copy), TB_ERROR_INVALID_ARGUMENT);

  tb_file_retain(reader);
  tb_file_release(reader);
  CHECK(((const float*)read.data)[3] == 60);
  CHECK(truncate("numbers.npy", 200) == 0);
  CHECK(((const float*)read.data)[COUNT - 1] == 0);
  CHECK_STATUS(tb_file_check(reader), TB_ERROR_SYSTEM);
  CHECK(strstr(tb_error_message(), "numbers.npy") != NULL);
  tb_file_release(copy);
  tb_file_release(reader);
  tb_file_release(file);
}

static void write_file(const char* name, const void* bytes, size_t count) {
  FILE* file = fopen(name, "wb");
  CHECK(file != NULL && fwrite(bytes, 1, count, file) == count && fclose(file) == 0);
}

static void test_named_files(void) {
  static const char json[] =
      "{\"__metadata__\":{\"format\":\"c\"},"
      "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]},"
      "\"a\":{\"dtype\":\"I8\",\"shape\":[3,1],\"data_offsets\":[0,3]}}";
  char content[8 + sizeof json - 1 + 5] = {(char)(sizeof json - 1)};
  memcpy(content + 8, json, sizeof json - 1);
  memcpy(content + sizeof content - 5, "\1\2\3\4\5", 5);
  write_file("model.safetensors", content, sizeof content);

  tb_file* file = NULL;
  CHECK_OK(tb_file_map("model.safetensors", NULL, &file));
  CHECK(tb_file_tensor_count(file) == 2);
  CHECK(strcmp(tb_file_tensor_name(file, 0), "b") == 0);
  CHECK(strcmp(tb_file_tensor_name(file, 1), "a") == 0);
  CHECK(tb_file_tensor_name(file, 2) == NULL);
  tb_tensor tensor = TB_TENSOR_INIT;
  CHECK_OK(tb_file_tensor_named(file, "a", &tensor));
  CHECK(tensor.layout.dtype == TB_INT8 && tensor.layout.dims == 2);
  CHECK(((const char*)tensor.data)[2] == 3);
  CHECK_OK(tb_file_tensor(file, 0, &tensor));
  CHECK(((const char*)tensor.data)[0] == 4);
  CHECK_STATUS(tb_file_tensor(file, 2, &tensor), TB_ERROR_INVALID_ARGUMENT);
  CHECK_STATUS(tb_file_tensor_named(file, "c", &tensor), TB_ERROR_INVALID_ARGUMENT);
  CHECK_STATUS(tb_file_tensor_named(file, NULL, &tensor), TB_ERROR_INVALID_ARGUMENT);
  CHECK(tb_file_metadata_count(file) == 1 && tb_file_metadata_key(file, 1) == NULL);
  CHECK(strcmp(tb_file_metadata_key(file, 0), "format") == 0);
  CHECK(strcmp(tb_file_metadata_value(file, 0), "c") == 0);
  CHECK_OK(tb_file_check(file));
  tb_file_release(file);
}

static void test_wrong_files(void) {
  tb_file* file = NULL;
  CHECK_STATUS(tb_file_map("none.npy", NULL, &file), TB_ERROR_SYSTEM);
  CHECK(strstr(tb_error_message(), "No such file") != NULL);
  CHECK_STATUS(tb_file_map(NULL, NULL, &file), TB_ERROR_INVALID_ARGUMENT);
  CHECK_STATUS(tb_file_map("new", NULL, NULL), TB_ERROR_INVALID_ARGUMENT);
  write_file("raw", "12345678", 8);
  CHECK_STATUS(tb_file_map("raw", NULL, &file), TB_ERROR_INVALID_ARGUMENT);
  CHECK(strstr(tb_error_message(), "dtype: required for a new file") != NULL);

  tb_file_options options = TB_FILE_OPTIONS_INIT;
  options.dtype = TB_FLOAT32;
  options.dims = 1;
  CHECK_STATUS(tb_file_map("raw", &options, &file), TB_ERROR_INVALID_ARGUMENT);
  options.shape = shape;
  CHECK_STATUS(tb_file_map("raw", &options, &file), TB_ERROR_INVALID_ARGUMENT);
  CHECK(strstr(tb_error_message(), "has 8 bytes, but 4000 bytes") != NULL);
  options.dims = 65;
  CHECK_STATUS(tb_file_map("raw", &options, &file), TB_ERROR_INVALID_ARGUMENT);
  options.dims = 0; /* a scalar, and not "all that is there" */
  options.mode = 4;
  CHECK_STATUS(tb_file_map("raw", &options, &file), TB_ERROR_INVALID_ARGUMENT);
  options.mode = TB_FILE_READ;
  tb_tensor tensor = TB_TENSOR_INIT;
  file = mapped("raw", &options, &tensor);
  CHECK(tensor.layout.dims == 0);
  tb_file_release(file);
  tb_file_release(NULL);
  CHECK(tb_file_tensor_count(NULL) == 0 && tb_file_metadata_key(NULL, 0) == NULL);
  CHECK_STATUS(tb_file_check(NULL), TB_ERROR_INVALID_ARGUMENT);
}

static const struct {
  const char* name;
  void (*run)(void);
} tests[] = {
    {"files", test_files},
    {"named_files", test_named_files},
    {"wrong_files", test_wrong_files},
};

static char folder[] = "/tmp/tensorbus-c-XXXXXX";

static void remove_folder(void) {
  static const char* const names[] = {"numbers.npy", "model.safetensors", "raw"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) (void)unlink(names[i]);
  (void)rmdir(folder);
}

int main(int count, char** arguments) {
  CHECK(mkdtemp(folder) != NULL && chdir(folder) == 0 && atexit(remove_folder) == 0);
  for (size_t i = 0; count > 1 && i < sizeof tests / sizeof tests[0]; ++i) {
    if (strcmp(arguments[1], tests[i].name) != 0) continue;
    tests[i].run();
    return 0;
  }
  fprintf(stderr, "no such test\n");
  return 2;
}
