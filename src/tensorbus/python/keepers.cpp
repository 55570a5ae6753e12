// Python objects that keep memory which other processes read. A thread of the bus drops them. It
// must not wait for the GIL, so it adds the objects to a list. The main thread, in a pending call,
// and every publishing thread release the objects in the list.
#include "tensorbus/python/keepers.hpp"

#include <atomic>

#include "tensorbus/platform/immortal.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::python {
namespace {

struct Node {
  PyObject* object;
  Node* next = nullptr;
};

std::atomic<Node*> waiting{nullptr};  // acquire and release, so that a taken node is complete

// The mutex is held briefly, and never while waiting for the GIL. Never destroyed.
struct Interpreter {
  platform::Mutex mutex;
  bool ends TB_GUARDED_BY(mutex) = false;  // no more objects are released
};
platform::Immortal<Interpreter> interpreter;

void put_aside(Node* node) noexcept {
  node->next = waiting.load(std::memory_order_relaxed);
  while (!waiting.compare_exchange_weak(node->next, node, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
  if (node->next != nullptr) return;  // the thread that added the first node requests the call
#ifdef Py_GIL_DISABLED
  // Py_AddPendingCall() may wait until all threads that run Python have paused. So no thread that
  // runs Python may wait for the mutex meanwhile.
  std::optional<WithoutGil> pause;
  if (PyThreadState_GetUnchecked() != nullptr) pause.emplace();
#endif
  const platform::MutexLock lock(interpreter->mutex);
  // If no further pending call fits, the next publishing thread empties the list.
  if (interpreter->ends) return;
  (void)Py_AddPendingCall(
      [](void*) {
        let_go_of_kept();
        return 0;
      },
      nullptr);
}

}  // namespace

std::shared_ptr<const void> keeper_of(nb::object value) {
  let_go_of_kept();
  auto* const node = new Node{value.ptr()};
  (void)value.release();
  return {node, [](Node* kept) { put_aside(kept); }};
}

void let_go_of_kept() noexcept {
  Node* node = waiting.exchange(nullptr, std::memory_order_acquire);
  while (node != nullptr) {
    const std::unique_ptr<Node> one(node);
    node = one->next;
    Py_DECREF(one->object);
  }
}

void bind_keepers(nb::module_&) {
  const auto end = nb::cpp_function([] {
    const WithoutGil release;
    const platform::MutexLock lock(interpreter->mutex);
    interpreter->ends = true;
  });
  nb::module_::import_("atexit").attr("register")(end);
}

}  // namespace tensorbus::python
