// Kernels that measure where products spend their time, how others distribute the work, and the vendor's library
// without warploom around it.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "common.hpp"
#include "device/cuda_function.hpp"
#include "experiments/experiments.hpp"
#include "kernels/csr/merge_tiles.hpp"
#include "kernels/csr/row_blocks.hpp"
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

// Addresses of row offsets, columns and values.
using csr_addresses = std::tuple<std::uintptr_t, std::uintptr_t, std::uintptr_t>;

vendor_problem make_vendor_problem(const std::string& op, std::tuple<std::int64_t, std::int64_t> shape,
                                   std::int64_t nnz, const csr_addresses& arrays, const py::dtype& dtype,
                                   int index_bytes, bool on_host, std::int64_t k, int algorithm, bool preprocess) {
  if (op != "spmv" && op != "spmm")
    throw error(error_kind::parameter, "op", -1, "op must be spmv or spmm, got '" + op + "'");
  if (index_bytes != 4 && index_bytes != 8)
    throw error(error_kind::parameter, "index_bytes", -1,
                "index_bytes must be 4 or 8, got " + std::to_string(index_bytes));
  const int algorithms = op == "spmv" ? vendor_problem::spmv_algorithms : vendor_problem::spmm_algorithms;
  if (algorithm < 0 || algorithm >= algorithms)
    throw error(error_kind::parameter, "algorithm", -1,
                "algorithm must be from 0 to " + std::to_string(algorithms - 1) + ", got " + std::to_string(algorithm));
  if (k < 1 || (op == "spmv" && k != 1))
    throw error(error_kind::parameter, "k", -1, "k must be at least 1, and 1 for SpMV, got " + std::to_string(k));
  const auto pointer = [](std::uintptr_t address) { return reinterpret_cast<const void*>(address); };
  vendor_problem problem;
  problem.op = op == "spmv" ? operation::spmv : operation::spmm;
  std::tie(problem.num_rows, problem.num_cols) = shape;
  problem.nnz = nnz;
  problem.indptr = pointer(std::get<0>(arrays));
  problem.indices = pointer(std::get<1>(arrays));
  problem.data = pointer(std::get<2>(arrays));
  problem.wide_indices = index_bytes == 8;
  problem.on_host = on_host;
  problem.dtype = parse_dtype(dtype);
  problem.k = k;
  problem.algorithm = algorithm;
  problem.preprocess = preprocess;
  return problem;
}

// Records of 32-bit members, one in each row.
template <class Record>
py::array_t<std::int32_t> rows_of(const std::vector<Record>& records) {
  constexpr py::ssize_t columns = sizeof(Record) / sizeof(std::int32_t);
  const auto* members = reinterpret_cast<const std::int32_t*>(records.data());
  return py::array_t<std::int32_t>({static_cast<py::ssize_t>(records.size()), columns}, members);
}

void check_size(const char* name, int size, int smallest, int largest) {
  if (size >= smallest && size <= largest && (size & (size - 1)) == 0) return;
  throw error(error_kind::parameter, name, -1,
              std::string(name) + " must be a power of two from " + std::to_string(smallest) + " to " +
                  std::to_string(largest) + ", got " + std::to_string(size));
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
  py::class_<vendor_problem>(
      module, "VendorProblem",
      "A product of cuSPARSE's with a matrix in CSR. `arrays` are the addresses of row offsets, columns and values; B "
      "and C are row-major, and on the GPU.")
      .def(py::init(&make_vendor_problem), py::arg("op"), py::kw_only(), py::arg("shape"), py::arg("nnz"),
           py::arg("arrays"), py::arg("dtype"), py::arg("index_bytes"), py::arg("on_host"), py::arg("k"),
           py::arg("algorithm"), py::arg("preprocess"))
      .def(
          "time",
          [](const vendor_problem& problem, int device, std::uintptr_t B, std::uintptr_t C, int products) {
            const device_guard guard(device);
            const vendor_times found = WARPLOOM_CUDA(time_vendor)(problem, reinterpret_cast<const void*>(B),
                                                                  reinterpret_cast<void*>(C), products);
            return std::tuple(found.planning_us, found.first_us, found.products_us, found.buffer_bytes);
          },
          py::arg("device"), py::arg("B"), py::arg("C"), py::arg("products"),
          "Microseconds on the clock of the host of planning, of the first product and of others after it, and bytes "
          "of the buffer.")
      .def(
          "time_until",
          [](const vendor_problem& problem, int device, std::uintptr_t B, std::uintptr_t C, int products) {
            const device_guard guard(device);
            return WARPLOOM_CUDA(time_vendor_until)(problem, reinterpret_cast<const void*>(B),
                                                    reinterpret_cast<void*>(C), products);
          },
          py::arg("device"), py::arg("B"), py::arg("C"), py::arg("products"),
          "Microseconds from the start of planning until so many products are done.");
  module.def(
      "row_blocks",
      [](const csr_holder& matrix, const std::optional<resident_csr>& resident, int nnz_per_block,
         int threads_per_block) {
        check_size("nnz_per_block", nnz_per_block, 256, 4096);
        check_size("threads_per_block", threads_per_block, 32, 256);
        row_blocks made;
        if (!resident) {
          made = make_row_blocks({matrix.view.indptr, static_cast<std::size_t>(matrix.view.num_rows) + 1},
                                 nnz_per_block, threads_per_block);
        } else {
          check(matrix, *resident);
          const device_guard guard(resident->device);
          made = WARPLOOM_CUDA(row_blocks_on_gpu)(*resident->matrix, nnz_per_block, threads_per_block);
        }
        return py::make_tuple(rows_of(made.blocks), rows_of(made.cut_rows), made.num_partials);
      },
      py::arg("matrix"), py::arg("resident"), py::kw_only(), py::arg("nnz_per_block"), py::arg("threads_per_block"),
      "Blocks and cut rows of csr/adaptive and the number of partial sums, made where the matrix is.");
  module.def(
      "merge_tiles",
      [](const csr_holder& matrix, const std::optional<resident_csr>& resident, int size) {
        check_size("size", size, 256, 2048);
        merge_tiles made;
        if (!resident) {
          made = make_merge_tiles({matrix.view.indptr, static_cast<std::size_t>(matrix.view.num_rows) + 1}, size);
        } else {
          check(matrix, *resident);
          const device_guard guard(resident->device);
          made = WARPLOOM_CUDA(merge_tiles_on_gpu)(*resident->matrix, size);
        }
        return py::make_tuple(rows_of(made.tiles), rows_of(made.cuts));
      },
      py::arg("matrix"), py::arg("resident"), py::kw_only(), py::arg("size"),
      "Tiles of csr/merge and the rows they share, made where the matrix is.");
}

}  // namespace warploom::python
