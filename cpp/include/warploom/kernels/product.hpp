// Products C = A B with a sparse A (m x n) and dense B (n x k), C (m x k). C is overwritten, never accumulated into.
// SpMM takes any k; SpMV is the same with k = 1, where B and C are vectors.
//
// A kernel is registered once (cpp/src/kernels/spmm_registry.cpp, spmv_registry.cpp) with the format it reads, the
// layouts of B and C it works on and its parameters. Preparing a kernel for a matrix gives a plan, which can run any
// number of times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "warploom/csr_view.hpp"
#include "warploom/device.hpp"

namespace warploom {

enum class operation { spmm, spmv };

enum class layout { row_major, column_major };

// A dense matrix, seen but not owned. Element (i, j) is at i * leading_dimension + j in row-major order and at
// i + j * leading_dimension in column-major order.
struct dense_view {
  void* data = nullptr;
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  std::int64_t leading_dimension = 0;
};

using parameter_values = std::map<std::string, int>;

struct parameter {
  std::string name;
  int default_value;
  std::vector<int> values;  // accepted values
  std::vector<int> tried;   // those that selection by measurement tries on a GPU
  bool on_cpu;              // whether the CPU executor depends on it
  std::string meaning;
};

// A CSR matrix in GPU memory, shared by the plans that read it or convert it there (kernels/cuda/device_csr.hpp).
class device_csr;
std::shared_ptr<const device_csr> upload_csr(const csr_view& matrix, const device_allocator& allocate);
std::size_t device_csr_bytes(const device_csr& matrix);

// Everything but the matrix that preparation may depend on.
struct product_request {
  std::int64_t k = 1;  // columns of B the plan is tuned for and sized for
  layout order = layout::row_major;
  parameter_values parameters;                          // complete: every parameter of the kernel
  std::span<const std::int32_t> perm;                   // row permutation, or empty
  std::span<const std::int32_t> block_threads_per_row;  // csr/blockwise: one for each short-row block, or empty
  // The matrix in the memory of the current device, for kernels that start from it there; null: upload it.
  std::shared_ptr<const device_csr> resident;
};

// A kernel prepared for one matrix. Not thread safe: one run at a time.
class product_plan {
 public:
  virtual ~product_plan() = default;
  // Enqueues C = A B on `stream` (ignored on the CPU, where the product is complete on return). B and C have the
  // layout and value type of the plan and any number of columns.
  virtual void run(const dense_view& B, const dense_view& C, CUstream_st* stream) = 0;
  // Memory the plan holds on its device, in bytes.
  virtual std::size_t bytes() const = 0;
  // Microseconds of every repetition of the conversion from CSR on the GPU, for plans of a format that is made there;
  // empty for all others. The conversion leaves what the plan holds as it is.
  virtual std::vector<double> time_conversion(const timing_options&) { return {}; }
};

struct product_kernel {
  std::string name;    // "c_stationary"
  std::string format;  // "csr", "dcsr", ...
  std::string summary;
  std::vector<layout> layouts;
  std::vector<parameter> parameters;
  std::vector<value_type> dtypes{value_type::float32, value_type::float64};
  bool permutes = true;      // whether a row permutation makes sense
  bool reproducible = true;  // bitwise the same result in every run

  bool on_cpu = true;        // whether there is a CPU executor; prepare_cpu is null otherwise
  bool from_device = false;  // prepare_cuda reads request.resident

  // Why the kernel cannot run this request, or "" if it can. `matrix` is validated.
  std::string (*unsupported_reason)(const csr_view& matrix, const product_request& request);
  std::unique_ptr<product_plan> (*prepare_cpu)(const csr_view& matrix, const product_request& request);
  std::unique_ptr<product_plan> (*prepare_cuda)(const csr_view& matrix, const product_request& request,
                                                const device_allocator& allocate);
};

// The registry: one entry per (format, kernel).
std::span<const product_kernel> kernels(operation op);
std::span<const product_kernel> spmm_kernels();
std::span<const product_kernel> spmv_kernels();

// Throws error_kind::parameter with the known names.
const product_kernel& find_kernel(operation op, std::string_view format, std::string_view name);

// Fills in defaults; throws error_kind::parameter for an unknown parameter or a value that is not accepted.
parameter_values complete_parameters(const product_kernel& kernel, const parameter_values& given);

// The slow, obvious product every kernel is compared with: row by row, nonzero by nonzero, sums in double.
// C is double, row-major, m x k. `absolute` (m x k, may be null) receives |A| |B|, the scale of the rounding error.
void reference_product(const csr_view& matrix, const dense_view& B, layout order, double* C, double* absolute);

// Fewest bytes a product can move: A in CSR once, B once, C once. Rows of B that no nonzero refers to are not counted.
std::int64_t product_floor_bytes(const csr_pattern& matrix, std::int64_t k, value_type dtype);

}  // namespace warploom
