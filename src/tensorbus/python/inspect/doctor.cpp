// The capabilities of this machine, which tensorbus/doctor.py prints.
#include "tensorbus/bus/doctor.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "tensorbus/bus/domain/domain_path.hpp"
#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {

void bind_doctor(nb::module_& module) {
  module.def(
      "cuda_device_of",
      [](std::uintptr_t address) {
        return device::cuda_device_of(reinterpret_cast<const void*>(address));
      },
      nb::arg("address"),
      "Returns the ordinal of the GPU whose memory this is; -1 for any other address.");
  nb::class_<ProbeResult>(module, "Finding")
      .def_prop_ro("why_not", [](const ProbeResult& self) { return text_of(self.why_not); })
      .def_prop_ro("can", &ProbeResult::can);
  nb::class_<bus::HostFindings>(module, "HostFindings")
      .def_ro("kernel", &bus::HostFindings::kernel)
      .def_ro("kernel_version", &bus::HostFindings::kernel_version)
      .def_ro("pidfd", &bus::HostFindings::pidfd)
      .def_ro("shared_memory", &bus::HostFindings::shared_memory)
      .def_ro("huge_pages", &bus::HostFindings::huge_pages)
      .def_prop_ro("domain_path",
                   [](const bus::HostFindings& self) { return text_of(self.domain_path); })
      .def_ro("domain", &bus::HostFindings::domain)
      .def_ro("domain_exists", &bus::HostFindings::domain_exists)
      .def_prop_ro("other_domains",
                   [](const bus::HostFindings& self) {
                     std::vector<nb::str> texts;
                     for (const std::string& path : self.other_domains)
                       texts.push_back(text_of(path));
                     return texts;
                   })
      .def_ro("memory_bytes", &bus::HostFindings::memory_bytes)
      .def_prop_ro("memory_limit",
                   [](const bus::HostFindings& self) { return text_of(self.memory_limit); })
      .def_ro("open_files", &bus::HostFindings::open_files)
      .def_ro("locked_bytes", &bus::HostFindings::locked_bytes)
      .def_prop_ro("can_share", &bus::HostFindings::can_share);
  nb::class_<device::DeviceFindings>(module, "DeviceFindings")
      .def_ro("ordinal", &device::DeviceFindings::ordinal)
      .def_prop_ro("name", [](const device::DeviceFindings& self) { return text_of(self.name); })
      .def_ro("uuid", &device::DeviceFindings::uuid)
      .def_ro("capability_major", &device::DeviceFindings::capability_major)
      .def_ro("capability_minor", &device::DeviceFindings::capability_minor)
      .def_ro("memory_bytes", &device::DeviceFindings::memory_bytes)
      .def_ro("integrated", &device::DeviceFindings::integrated)
      .def_ro("mig", &device::DeviceFindings::mig)
      .def_ro("context", &device::DeviceFindings::context)
      .def_ro("shared_memory", &device::DeviceFindings::shared_memory)
      .def_ro("read_only_mapping", &device::DeviceFindings::read_only_mapping)
      .def_ro("order", &device::DeviceFindings::order)
      .def_ro("stream_waits", &device::DeviceFindings::stream_waits)
      .def_ro("legacy_ipc", &device::DeviceFindings::legacy_ipc)
      .def_ro("pool_ipc", &device::DeviceFindings::pool_ipc)
      .def_prop_ro("can_share", &device::DeviceFindings::can_share);
  nb::class_<device::PeerFinding>(module, "PeerFinding")
      .def_ro("reader", &device::PeerFinding::reader)
      .def_ro("owner", &device::PeerFinding::owner)
      .def_ro("access", &device::PeerFinding::access);
  nb::class_<device::CudaFindings>(module, "CudaFindings")
      .def_ro("driver", &device::CudaFindings::driver)
      .def_ro("driver_version", &device::CudaFindings::driver_version)
      .def_ro("wsl", &device::CudaFindings::wsl)
      .def_ro("devices", &device::CudaFindings::devices)
      .def_ro("peers", &device::CudaFindings::peers);
  module.def(
      "probe_host", [](const PathBytes& domain) { return bus::probe_host(domain.bytes); },
      nb::arg("domain"), nb::call_guard<WithoutGil>());
  module.def(
      "elsewhere_text",
      [](const PathBytes& path) { return text_of(bus::elsewhere_text(path.bytes)); },
      nb::arg("domain_path"),
      "Returns a text that names other buses of this user, for the end of an error message; \"\" "
      "if there are none.");
  module.def("probe_cuda", [] { return device::probe_cuda(); }, nb::call_guard<WithoutGil>());
}

}  // namespace tensorbus::python
