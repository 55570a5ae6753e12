#include "tensorbus/c/guard.hpp"
#include "tensorbus/c/objects.hpp"
#include "tensorbus/c/structs.hpp"

using namespace tensorbus;
using namespace tensorbus::c;

namespace {

FileMode mode_of(std::int32_t mode) {
  if (mode < TB_FILE_READ || mode > TB_FILE_CREATE)
    throw Error(Code::kInvalidArgument,
                "mode is " + std::to_string(mode) +
                    ": expected TB_FILE_READ, _READ_WRITE, _COPY_ON_WRITE or _CREATE");
  return static_cast<FileMode>(mode);
}
static_assert(static_cast<int>(FileMode::kRead) == TB_FILE_READ);
static_assert(static_cast<int>(FileMode::kReadWrite) == TB_FILE_READ_WRITE);
static_assert(static_cast<int>(FileMode::kCopyOnWrite) == TB_FILE_COPY_ON_WRITE);
static_assert(static_cast<int>(FileMode::kCreate) == TB_FILE_CREATE);

FileOptions options_of(const tb_file_options& given) {
  FileOptions options{.mode = mode_of(given.mode), .offset = given.offset};
  if (given.dtype != 0) options.dtype = static_cast<DType>(given.dtype);
  if (given.dims > kMaxDims)
    throw Error(Code::kInvalidArgument,
                "dims is " + std::to_string(given.dims) + "; at most 64 are possible");
  if (given.dims > 0) (void)required(given.shape, "shape");
  if (given.shape != nullptr) options.shape = Dims(std::span(given.shape, given.dims));
  return options;
}

const tensor::TensorFile& in(const tb_file* file) { return required(file, "file").file; }

void describe(const tensor::TensorFile& file, const tensor::FilePlace& place, tb_tensor* target) {
  tb_tensor found = TB_TENSOR_INIT;
  found.layout = described(file.layout(place));
  found.data = file.data(place);
  found.writable = file.writable() ? 1 : 0;
  give(&required(target, "tensor"), found);
}

const std::pair<std::string, std::string>* metadata_at(const tb_file* file, std::uint32_t index) {
  if (index >= tb_file_metadata_count(file)) return nullptr;
  return &file->file.contents().metadata[index];
}

}  // namespace

// Relaxed: a new reference is made from an existing one. The release in tb_file_release() pairs
// with the acquire of the thread that releases the last reference.
void tb_file_retain(tb_file* file) {
  if (file != nullptr) file->references.fetch_add(1, std::memory_order_relaxed);
}

void tb_file_release(tb_file* file) {
  if (file != nullptr && file->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete file;
}

tb_status tb_file_map(const char* path, const tb_file_options* options, tb_file** file) {
  return done([&] {
    const auto given = taken_or<tb_file_options>(options, TB_FILE_OPTIONS_INIT);
    const FileOptions known = options_of(given);
    hand_out(file, "file", [&] { return new tb_file(text_of(path, "path"), known); });
  });
}

uint32_t tb_file_tensor_count(const tb_file* file) {
  return file == nullptr ? 0 : static_cast<std::uint32_t>(file->file.contents().tensors.size());
}

const char* tb_file_tensor_name(const tb_file* file, uint32_t index) {
  if (index >= tb_file_tensor_count(file) || !file->file.contents().named) return nullptr;
  return file->file.contents().tensors[index].name.c_str();
}

tb_status tb_file_tensor(const tb_file* file, uint32_t index, tb_tensor* tensor) {
  return done([&] {
    const std::vector<tensor::FilePlace>& places = in(file).contents().tensors;
    if (index >= places.size())
      throw Error(Code::kInvalidArgument, "tensor " + std::to_string(index) +
                                              ": the file has only " +
                                              std::to_string(places.size()));
    describe(in(file), places[index], tensor);
  });
}

tb_status tb_file_tensor_named(const tb_file* file, const char* name, tb_tensor* tensor) {
  return done([&] { describe(in(file), in(file).place(name), tensor); });
}

uint32_t tb_file_metadata_count(const tb_file* file) {
  return file == nullptr ? 0 : static_cast<std::uint32_t>(file->file.contents().metadata.size());
}

const char* tb_file_metadata_key(const tb_file* file, uint32_t index) {
  const auto* const found = metadata_at(file, index);
  return found == nullptr ? nullptr : found->first.c_str();
}

const char* tb_file_metadata_value(const tb_file* file, uint32_t index) {
  const auto* const found = metadata_at(file, index);
  return found == nullptr ? nullptr : found->second.c_str();
}

tb_status tb_file_check(const tb_file* file) {
  return done([&] { in(file).file().check(); });
}

tb_status tb_file_flush(const tb_file* file) {
  return done([&] { in(file).file().flush(); });
}
