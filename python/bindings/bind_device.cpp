#include <atomic>
#include <map>
#include <string>
#include <utility>

#include "common.hpp"
#include "device/release.hpp"
#include "kernels/row_split/row_loads.hpp"
#include "kernels/spmm/padded_copy.hpp"
#include "warploom/cublas.hpp"
#include "warploom/cusparse.hpp"
#include "warploom/device.hpp"

namespace warploom::python {
namespace {

// Device memory for callers without torch or CuPy.
struct device_memory {
  std::shared_ptr<void> memory;
};

py::dict describe(const gpu_info& gpu) {
  using namespace py::literals;
  return py::dict("name"_a = gpu.name, "compute_capability"_a = py::make_tuple(gpu.major, gpu.minor),
                  "multiprocessors"_a = gpu.multiprocessors, "memory_bytes"_a = gpu.memory_bytes,
                  "l2_bytes"_a = gpu.l2_bytes, "shared_bytes_per_block"_a = gpu.shared_bytes_per_block);
}

py::dict describe_cuda() {
  using namespace py::literals;
  const cuda_info info = query_cuda();
  py::list devices;
  for (const gpu_info& gpu : info.devices) devices.append(describe(gpu));
  return py::dict("built"_a = info.built, "architectures"_a = info.architectures,
                  "runtime_version"_a = info.runtime_version,
                  "driver_version"_a = info.driver_version > 0 ? py::object(py::int_(info.driver_version)) : py::none(),
                  "devices"_a = devices, "error"_a = info.error.empty() ? py::object(py::none()) : py::str(info.error));
}

void choose_padded_copies(const std::string& when, std::int64_t panel_bytes) {
  static const std::map<std::string, padded_copies> known{{"where they pay", padded_copies::where_they_pay},
                                                          {"always", padded_copies::always},
                                                          {"never", padded_copies::never}};
  const auto found = known.find(when);
  if (found == known.end()) throw py::value_error("unknown: " + when);
  make_padded_copies(found->second, panel_bytes);
}

void choose_row_loads_by_name(const std::string& when) {
  static const std::map<std::string, row_loads> known{
      {"by size", row_loads::by_size}, {"few", row_loads::few}, {"many", row_loads::many}};
  const auto found = known.find(when);
  if (found == known.end()) throw py::value_error("unknown: " + when);
  choose_row_loads(found->second);
}

// Of Python, and never destroyed: memory may be released while the interpreter ends, and another thread may still ask.
std::atomic<PyObject*> capture_query{nullptr};

// False in threads without the GIL, which must not wait for it here. They plan, and that is not captured.
bool python_captures() noexcept {
  if (!Py_IsInitialized() || !PyGILState_Check()) return false;
  const py::error_scope on_its_way;  // objects are destroyed while exceptions are passed on, too
  PyObject* const answer = PyObject_CallNoArgs(capture_query);
  const bool captures = answer != nullptr && PyObject_IsTrue(answer) == 1;
  Py_XDECREF(answer);
  PyErr_Clear();
  return captures;
}

void ask_for_captures(const py::function& query) {
  capture_query = query.inc_ref().ptr();
  find_captures_by(python_captures);
}

}  // namespace

void bind_device(py::module_& module) {
  module.def("cuda_info", &describe_cuda, "What was built and which GPUs were found; never raises.");
  module.def("fail_device_allocation", &fail_device_allocation, py::arg("after"),
             "For tests: let an allocation of memory for a GPU fail; returns whether one has failed.");
  module.def(
      "make_padded_copies", &choose_padded_copies, py::arg("when") = "where they pay", py::arg("panel_bytes") = 0,
      "For tests: whether products on a GPU copy operands whose rows do not begin on 16 bytes: 'where they pay', "
      "'always' or 'never'; and how large the copy of a panel may be.");
  module.def(
      "choose_row_loads", &choose_row_loads_by_name, py::arg("when") = "by size",
      "For tests: whether threads of row_split on a GPU load 'few' or 'many' rows of B at once, or 'by size' of the "
      "grid.");
  module.def(
      "memory_in_pools",
      [](int device) {
        const device_guard guard(device);
        const pool_bytes found = memory_in_pools();
        return std::pair(found.used, found.reserved);
      },
      py::arg("device"), "Bytes of the pools of a GPU: what is allocated, and what they hold with it.");
  module.def(
      "ask_for_captures", &ask_for_captures, py::arg("query"),
      "How to find out whether a graph is captured in this thread: GPU memory that is dropped then is kept until "
      "the capture has ended.");
  module.def("num_gpus", [] { return query_cuda().devices.size(); }, "As many as cuda_info lists.");
  module.def("load_cublas", &load_cublas, py::arg("path"));
  module.def("cublas_version", &cublas_version);
  module.def("load_cusparse", &load_cusparse, py::arg("path"));
  module.def("cusparse_version", &cusparse_version);
  module.def(
      "measure_copy_bandwidth",
      [](int device, std::size_t bytes) {
        const py::gil_scoped_release release;
        const device_guard guard(device);
        return measure_copy_bandwidth(bytes);
      },
      py::arg("device"), py::arg("bytes"), "Bytes per second, read plus written, of a device-to-device copy.");
  module.def(
      "synchronize",
      [](int device) {
        const py::gil_scoped_release release;
        const device_guard guard(device);
        synchronize(nullptr);
      },
      py::arg("device"));

  py::class_<device_memory>(module, "DeviceMemory")
      .def(py::init([](int device, std::size_t bytes) {
             const device_guard guard(device);
             return device_memory{allocate_device_memory(bytes)};
           }),
           py::arg("device"), py::arg("bytes"))
      .def_property_readonly("pointer",
                             [](const device_memory& m) { return reinterpret_cast<std::uintptr_t>(m.memory.get()); });
  module.def(
      "eviction_memory",
      [](int device) {
        const py::gil_scoped_release release;  // it may wait for memory that Python holds
        const device_guard guard(device);
        return device_memory{eviction_memory()};
      },
      py::arg("device"),
      "The buffer that cold timings overwrite to evict the L2; kept for the next timing as long as it is referenced.");
  module.def(
      "fill_device",
      [](int device, std::uintptr_t to, int byte, std::size_t bytes) {
        const device_guard guard(device);
        fill_device(reinterpret_cast<void*>(to), byte, bytes, nullptr);
      },
      py::arg("device"), py::arg("to"), py::arg("byte"), py::arg("bytes"));
  module.def(
      "copy_to_device",
      [](int device, std::uintptr_t to, const py::array& from) {
        const device_guard guard(device);
        copy_to_device(reinterpret_cast<void*>(to), from.data(), from.nbytes(), nullptr);
        synchronize(nullptr);
      },
      py::arg("device"), py::arg("to"), py::arg("from_"));
  module.def(
      "copy_to_host",
      [](int device, py::array& to, std::uintptr_t from) {
        const device_guard guard(device);
        copy_to_host(to.mutable_data(), reinterpret_cast<const void*>(from), to.nbytes(), nullptr);
      },
      py::arg("device"), py::arg("to"), py::arg("from_"));
}

}  // namespace warploom::python
