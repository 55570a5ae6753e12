// NumPy arrays in memory of the bus, through NumPy's memory handlers (NEP 49). NumPy's C interface
// is a table of functions with fixed indices. Python passes the table, so no header of NumPy is
// needed.
#include <cstring>
#include <memory>

#include "tensorbus/bus/born_allocator.hpp"
#include "tensorbus/python/memory.hpp"

namespace tensorbus::python {
namespace {

// PyDataMem_Handler of NumPy, version 1.
struct NumpyAllocator {
  void* context;
  void* (*malloc)(void* context, std::size_t bytes);
  void* (*calloc)(void* context, std::size_t count, std::size_t bytes);
  void* (*realloc)(void* context, void* first, std::size_t bytes);
  void (*free)(void* context, void* first, std::size_t bytes);
};
struct NumpyHandler {
  char name[127];
  std::uint8_t version;
  NumpyAllocator allocator;
};
constexpr char kHandlerName[] = "mem_handler";  // of the capsules for NumPy
constexpr std::size_t kSetHandler = 304;        // index in NumPy's table, since 1.22
constexpr std::size_t kGetHandler = 305;

// The handler of an array's memory. Each array keeps its handler, and thereby this object.
struct BornHandler {
  NumpyHandler table{};
  bus::BornAllocator born;
  std::size_t min_bytes;
  nb::object beside;  // the handler for all other memory
  const NumpyAllocator* other;
};

BornHandler& handler_in(void* context) { return *static_cast<BornHandler*>(context); }

void* allocate(void* context, std::size_t bytes) {
  BornHandler& self = handler_in(context);
  if (bytes >= self.min_bytes)
    if (void* const first = self.born.allocate(bytes)) return first;
  return self.other->malloc(self.other->context, bytes);
}

void* allocate_zeros(void* context, std::size_t count, std::size_t bytes) {
  BornHandler& self = handler_in(context);
  std::size_t all = 0;
  if (__builtin_mul_overflow(count, bytes, &all)) return nullptr;
  if (all >= self.min_bytes)
    if (void* const first = self.born.allocate(all)) return std::memset(first, 0, all);
  return self.other->calloc(self.other->context, count, bytes);
}

void* reallocate(void* context, void* first, std::size_t bytes) {
  const std::size_t present = bus::BornAllocator::bytes_at(first);
  if (present == 0) {
    const NumpyAllocator& other = *handler_in(context).other;
    return other.realloc(other.context, first, bytes);
  }
  if (bytes <= present) return first;
  void* const moved = allocate(context, bytes);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, first, present);
  bus::BornAllocator::release(first);
  return moved;
}

void release(void* context, void* first, std::size_t bytes) {
  const NumpyAllocator& other = *handler_in(context).other;
  if (!bus::BornAllocator::release(first)) other.free(other.context, first, bytes);
}

void** table_of(nb::handle api) {
  void* const table = PyCapsule_GetPointer(api.ptr(), nullptr);
  if (table == nullptr) nb::raise_python_error();
  return static_cast<void**>(table);
}

nb::object current_handler(void** table) {
  return checked(reinterpret_cast<PyObject* (*)()>(table[kGetHandler])());
}

// Sets NumPy's handler, and returns the previous one.
nb::object set_handler(void** table, nb::handle handler) {
  return checked(reinterpret_cast<PyObject* (*)(PyObject*)>(table[kSetHandler])(handler.ptr()));
}

nb::object handler_of(const ParticipantHandle& participant, std::size_t min_bytes,
                      nb::object beside) {
  const auto* const other =
      static_cast<NumpyHandler*>(PyCapsule_GetPointer(beside.ptr(), kHandlerName));
  if (other == nullptr) nb::raise_python_error();
  std::unique_ptr<BornHandler> made(new BornHandler{.born = bus::BornAllocator(participant),
                                                    .min_bytes = min_bytes,
                                                    .beside = std::move(beside),
                                                    .other = &other->allocator});
  std::strcpy(made->table.name, "tensorbus");
  made->table.version = 1;
  made->table.allocator = {made.get(), allocate, allocate_zeros, reallocate, release};
  nb::object capsule = checked(PyCapsule_New(&made->table, kHandlerName, [](PyObject* ended) {
    auto* const table = static_cast<NumpyHandler*>(PyCapsule_GetPointer(ended, kHandlerName));
    delete static_cast<BornHandler*>(table->allocator.context);
  }));
  made.release();
  return capsule;
}

}  // namespace

void bind_born(nb::module_& module) {
  module.def(
      "set_numpy_handler",
      [](nb::object api, const ParticipantHandle& participant, std::size_t min_bytes) {
        void** const table = table_of(api);
        return set_handler(table, handler_of(participant, min_bytes, current_handler(table)));
      },
      nb::arg("api"), nb::arg("participant"), nb::arg("min_bytes"),
      nb::sig("def set_numpy_handler(api: object, participant: Participant, min_bytes: int) -> "
              "object"),
      "Sets NumPy's memory handler of this context: it allocates arrays of at least `min_bytes` "
      "in memory of the bus. Returns the previous handler.");
  module.def(
      "restore_numpy_handler",
      [](nb::object api, nb::object handler) { set_handler(table_of(api), handler); },
      nb::arg("api"), nb::arg("handler"),
      nb::sig("def restore_numpy_handler(api: object, handler: object) -> None"));
  module.def(
      "born",
      [](const std::string& dtype, const std::vector<std::int64_t>& shape,
         const ParticipantHandle& participant) {
        const Layout layout = layout_named(dtype, shape);
        return memory_of(run_without_gil([&] { return bus::born(layout, participant); }));
      },
      nb::arg("dtype"), nb::arg("shape"), nb::arg("participant"),
      nb::sig("def born(dtype: str, shape: collections.abc.Sequence[int], participant: "
              "Participant) -> Memory"));
  module.def(
      "born_use",
      [] {
        const bus::BornAllocator::Use use = bus::BornAllocator::use();
        return nb::make_tuple(use.blocks, use.bytes, use.born, use.elsewhere);
      },
      nb::sig("def born_use() -> tuple[int, int, int, int]"),
      "Returns the number of NumPy arrays that are in memory of the bus now, their bytes, how "
      "many arrays were allocated there, and how many were allocated elsewhere because the bus "
      "had no room.");
}

}  // namespace tensorbus::python
