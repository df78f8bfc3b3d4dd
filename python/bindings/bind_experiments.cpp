// Kernels that measure where products spend their time.
#include <algorithm>
#include <string>

#include "common.hpp"
#include "device/cuda_function.hpp"
#include "experiments/experiments.hpp"
#include "warploom/error.hpp"

namespace warploom::python {
namespace {

constexpr std::int64_t max_nnz = std::int64_t{1} << 30;  // leaves room for 32-bit offsets past the last nonzero

value_type parse_dtype(const py::dtype& dtype) {
  if (dtype.equal(numpy_dtype(value_type::float32))) return value_type::float32;
  if (dtype.equal(numpy_dtype(value_type::float64))) return value_type::float64;
  throw error(error_kind::dtype, "dtype", -1,
              "experiments work on float32 and float64, got " + py::cast<std::string>(py::str(dtype)));
}

void check(const csr_holder& matrix, const resident_csr& resident) {
  if (!matrix.data) throw error(error_kind::invalid_matrix, "matrix", -1, "the matrix is a pattern without values");
  parse_dtype(matrix.data->dtype());
  if (matrix.view.nnz() >= max_nnz) {
    throw error(error_kind::parameter, "matrix", -1,
                "experiments need fewer than 2^30 nonzeros, got " + std::to_string(matrix.view.nnz()));
  }
  if (!resident.matrix) throw error(error_kind::parameter, "resident", -1, "the matrix is not in GPU memory");
}

cmrs_read make_read(int height, bool strips) {
  if (height < 1 || height > cmrs_read::max_height) {
    throw error(
        error_kind::parameter, "height", -1,
        "height must be from 1 to " + std::to_string(cmrs_read::max_height) + ", got " + std::to_string(height));
  }
  return {height, strips};
}

csr_parts make_parts(int threads_per_row, bool gather, bool arithmetic) {
  const int accepted[] = {1, 2, 4, 8, 16, 32};
  if (std::find(std::begin(accepted), std::end(accepted), threads_per_row) == std::end(accepted)) {
    throw error(error_kind::parameter, "threads_per_row", -1,
                "threads_per_row must be 1, 2, 4, 8, 16 or 32, got " + std::to_string(threads_per_row));
  }
  return {threads_per_row, gather, arithmetic};
}

}  // namespace

void bind_experiments(py::module_& module) {
  module.def(
      "prepare_csr_parts",
      [](const csr_holder& matrix, const resident_csr& resident, int threads_per_row, bool gather, bool arithmetic) {
        const csr_parts parts = make_parts(threads_per_row, gather, arithmetic);
        check(matrix, resident);
        const device_guard guard(resident.device);
        return wrap_spmv_plan(matrix, resident.device, WARPLOOM_CUDA(prepare_csr_parts)(resident.matrix, parts));
      },
      py::arg("matrix"), py::arg("resident"), py::kw_only(), py::arg("threads_per_row"), py::arg("gather"),
      py::arg("arithmetic"), "CSR-vector with or without its random access to x and its arithmetic.");
  module.def(
      "prepare_cmrs_read",
      [](const csr_holder& matrix, const resident_csr& resident, int height, bool strips) {
        const cmrs_read read = make_read(height, strips);
        check(matrix, resident);
        const device_guard guard(resident.device);
        return wrap_spmv_plan(matrix, resident.device,
                              WARPLOOM_CUDA(prepare_cmrs_read)(resident.matrix, read, allocate_device_memory));
      },
      py::arg("matrix"), py::arg("resident"), py::kw_only(), py::arg("height"), py::arg("strips"),
      "A kernel that reads columns and values as CMRS does, and reserves the shared memory of its partial sums.");
  module.def(
      "cmrs_read_occupancy",
      [](int device, const py::dtype& dtype, int height, bool strips) {
        const value_type type = parse_dtype(dtype);
        const cmrs_read read = make_read(height, strips);
        const device_guard guard(device);
        return WARPLOOM_CUDA(cmrs_read_occupancy)(type, read);
      },
      py::arg("device"), py::arg("dtype"), py::kw_only(), py::arg("height"), py::arg("strips"),
      "Occupancy: share of the threads of a multiprocessor that can be resident with this kernel.");
}

}  // namespace warploom::python
