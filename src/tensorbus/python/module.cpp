#include "tensorbus/python/bindings.hpp"
#include "tensorbus/version.hpp"

NB_MODULE(_core, module) {
  using namespace tensorbus::python;
  module.attr("version") = tensorbus::kVersion;
  nb::set_leak_warnings(false);  // a program may end with samples in its hands
  bind_errors(module);
  bind_memory(module);
  bind_files(module);
  bind_torch(module);
  bind_outgoing(module);
  bind_keepers(module);
  bind_samples(module);
  bind_endpoints(module);
  bind_shares(module);
  bind_queues(module);
  bind_listing(module);
  bind_doctor(module);
}
