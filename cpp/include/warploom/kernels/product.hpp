// Products C = A B with a sparse A (m x n) and dense B (n x k), C (m x k). C is overwritten, never accumulated into.
// SpMM takes any k; SpMV is the same with k = 1, where B and C are vectors.
//
// A kernel describes itself in the folder of its format or strategy (cpp/src/kernels/<name>) and has one row in the
// registry (cpp/src/kernels/registry.cpp). Everything that is special about it stands in its description: code outside
// the folder knows no kernel by name. Preparing a kernel for a matrix gives a plan, which can run any number of times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "warploom/csr_view.hpp"
#include "warploom/device.hpp"

namespace warploom {

enum class operation { spmm, spmv };

enum class layout { row_major, column_major };

inline const char* name_of(operation op) { return op == operation::spmm ? "spmm" : "spmv"; }
inline const char* name_of(layout order) { return order == layout::row_major ? "row" : "column"; }

// How precise products of float32 are: with operands as they are, or rounded to TF32, 11 significant bits, for tensor
// cores. Sums are in float32 either way.
enum class product_precision { full, tf32 };

inline const char* name_of(product_precision of) { return of == product_precision::full ? "full" : "tf32"; }

// Whether operands are in the L2 cache (on the CPU: the last-level cache) when a product starts, as in a tight loop, or
// evicted before each.
enum class cache_state { warm, cold };

// A view of a dense matrix. Element (i, j) is at i * leading_dimension + j in row-major order and at
// i + j * leading_dimension in column-major order.
struct dense_view {
  void* data = nullptr;
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  std::int64_t leading_dimension = 0;

  bool operator==(const dense_view&) const = default;
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

// What is known of a matrix without looking at its pattern.
struct matrix_summary {
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  std::int64_t nnz = 0;
  std::int64_t shortest_row = 0;  // nonzeros; 0 without rows
  std::int64_t longest_row = 0;
  std::int64_t empty_rows = 0;
  value_type dtype = value_type::float32;
};

// A CSR matrix in the memory of a GPU (device/device_csr.hpp), from which plans are prepared there.
class device_csr;
// `matrix` is to outlive the result.
std::shared_ptr<const device_csr> upload_csr(const csr_view& matrix, const device_allocator& allocate);
std::size_t device_csr_bytes(const device_csr& matrix);
const matrix_summary& summary_of(const device_csr& matrix);
CUstream_st* stream_of(const device_csr& matrix);
// The same matrix in host memory, where it is copied when it is first asked for.
const csr_view& host_copy(const device_csr& matrix);

// A CSR matrix whose arrays somebody else has in the memory of a GPU. Nothing is known of what they hold.
struct device_csr_view {
  int device = 0;
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  std::int64_t num_indices = 0;   // entries of `indices`, at least as many as indptr ends at
  std::int64_t num_values = 0;    // entries of `data`, likewise
  const void* indptr = nullptr;   // [num_rows + 1] of int32 or int64
  const void* indices = nullptr;  // [num_indices] of int32 or int64
  const void* data = nullptr;     // [num_values] of `dtype`
  bool wide_indptr = false;       // int64
  bool wide_indices = false;
  value_type dtype = value_type::float32;
  CUstream_st* stream = nullptr;  // on which the arrays are complete, and on which all work is enqueued
};

// Checks that the arrays form a matrix, and throws error_kind::invalid_matrix as `validate` does if they do not. The
// result refers to them: they are to stay as they are until all plans are prepared from it, which copy what they keep.
std::shared_ptr<const device_csr> view_csr(const device_csr_view& matrix, const device_allocator& allocate);

// A row permutation in the memory of a GPU.
using device_permutation = std::shared_ptr<const std::int32_t>;

// Complete on return.
device_permutation upload_permutation(std::span<const std::int32_t> perm, const device_allocator& allocate);
std::vector<std::int32_t> download_permutation(const device_permutation& perm, const device_csr& of);

// A copy on the same device with its rows moved: row p of it is row perm[p] of `matrix`.
std::shared_ptr<const device_csr> permute_csr(const device_csr& matrix, const device_permutation& perm,
                                              const device_allocator& allocate);

// Arrays that a kernel takes beside the matrix, by name; see product_kernel::inputs.
using kernel_inputs = std::map<std::string, std::span<const std::int32_t>>;

// Everything that preparation may depend on, except the matrix.
struct product_request {
  std::int64_t k = 1;  // columns of B the plan is tuned for and sized for
  layout order = layout::row_major;
  parameter_values parameters;         // complete: every parameter of the kernel
  std::span<const std::int32_t> perm;  // row permutation, or empty; on the CPU
  kernel_inputs inputs;                // those of the kernel's own inputs that are given

  // Empty if it is not given.
  std::span<const std::int32_t> input(const std::string& name) const {
    const auto given = inputs.find(name);
    return given == inputs.end() ? std::span<const std::int32_t>{} : given->second;
  }
  // On a GPU, in place of `perm`. Where a kernel is prepared, the rows of the matrix have been moved already: row p of
  // it produces row row_ids[p] of C. Null: row p.
  device_permutation row_ids;
};

// An array of a plan that holds values of the matrix, in the memory of its device.
struct value_array {
  void* data = nullptr;
  std::int64_t places = 0;  // elements of the value type
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
  // All arrays that hold values of the matrix. Preparation copies each value to one place or several without looking at
  // it; what it writes to other places, and to all other memory of the plan, follows from the pattern alone. Where it
  // adds values, as BSR does with entries that repeat, some value is in no place. Empty: values are elsewhere, too.
  virtual std::vector<value_array> value_arrays() { return {}; }
};

// An array that a kernel takes beside the matrix and works without.
struct kernel_input {
  std::string name;
  std::string meaning;
};

struct product_kernel {
  operation op;
  std::string name;    // "c_stationary"
  std::string format;  // "csr", "dcsr", ...
  std::string summary;
  std::string source;  // the paper the idea is from, or "own"
  std::vector<layout> layouts;
  std::vector<parameter> parameters;
  std::vector<kernel_input> inputs{};
  std::vector<value_type> dtypes{value_type::float32, value_type::float64};
  bool permutes = true;         // whether a row permutation makes sense
  bool reproducible = true;     // bitwise the same result in every run
  bool vendor = false;          // the vendor's library: a baseline beside being a candidate
  bool from_device = false;     // made on the GPU; all others are made on the host and uploaded
  bool compared_fully = false;  // tables compare every setting, not only the default one
  bool tried_on_cpu = false;    // worth measuring there: not made for warps, and not the CPU code of another one
  std::optional<parameter_values> first_on_cpu{};  // what is tried there where there is time for few candidates
  // Among those that win on matrices of 10^6 nonzeros and more, and not on small ones: compared with what is predicted
  // for large matrices where models have seen none of the size.
  bool for_large = false;
  // If not full, nothing considers the kernel unless less than full precision is asked for, or the kernel is named.
  product_precision precision = product_precision::full;
  std::vector<layout> baseline_for{};  // layouts in which it is the "plain CSR" that speedups are over

  // Whether the kernel cannot pay off on such a matrix: it is not tried then unless it is named. Null: never.
  bool (*hopeless)(const matrix_summary& matrix) = nullptr;
  // Whether the kernel is likely enough to pay off on such a matrix that it is measured or compared with what is
  // predicted where the models do not know it. Null: never.
  bool (*promising)(const matrix_summary& matrix) = nullptr;
  // Whether, on such a matrix, another setting does the same work, so that this one need not be tried. Not asked of
  // default settings, which are always of interest. Null: never.
  bool (*redundant)(const matrix_summary& matrix, const product_request& request) = nullptr;
  // Why the kernel cannot run this request, or "" if it can.
  std::string (*unsupported_reason)(const matrix_summary& matrix, const product_request& request);
  // The same where the pattern tells, which takes about as long as the conversion. Where that is done on a GPU it
  // throws the reason as error_kind::parameter. Null: the pattern does not matter. `matrix` is validated.
  std::string (*pattern_reason)(const csr_view& matrix, const product_request& request) = nullptr;
  // Why a GPU cannot number the threads of this request, or "". Null: no limit that a matrix could reach.
  std::string (*launch_limit)(const matrix_summary& matrix, const product_request& request) = nullptr;

  // Null where there is no such executor: on the CPU for the vendor's kernels, on the GPU in builds without CUDA.
  std::unique_ptr<product_plan> (*prepare_cpu)(const csr_view& matrix, const product_request& request) = nullptr;
  std::unique_ptr<product_plan> (*prepare_cuda)(const device_csr& matrix, const product_request& request,
                                                const device_allocator& allocate) = nullptr;

  bool runs_on_cpu() const { return prepare_cpu != nullptr; }
  bool works_on(value_type dtype) const;
  bool works_on(layout order) const;
  std::string label() const { return format + "/" + name; }
};

// The registry: one entry for each pair of a format and a kernel.
std::span<const product_kernel> kernels(operation op);

// Throws error_kind::parameter with the known names.
const product_kernel& find_kernel(operation op, std::string_view format, std::string_view name);

// Prepares the kernel on the CPU. Throws error_kind::parameter if it cannot run the request.
std::unique_ptr<product_plan> prepare(const product_kernel& kernel, const csr_view& matrix,
                                      const product_request& request);

// Prepares the kernel on the current device, where the matrix is. request.perm permutes its rows. Throws
// error_kind::parameter if the kernel cannot run the request, and index_overflow beyond its launch limit.
std::unique_ptr<product_plan> prepare(const product_kernel& kernel, const device_csr& matrix,
                                      const product_request& request, const device_allocator& allocate);

// Why `prepare` would refuse the request with error_kind::parameter, or "", as far as it can be told without the
// pattern.
std::string reason_against(const product_kernel& kernel, const matrix_summary& matrix, const product_request& request);
// The same, all told.
std::string reason_against(const product_kernel& kernel, const csr_view& matrix, const product_request& request);

matrix_summary summarize(const csr_view& matrix);

// Fills in defaults; throws error_kind::parameter for an unknown parameter or a value that is not accepted.
parameter_values complete_parameters(const product_kernel& kernel, const parameter_values& given);

// The slow, obvious product every kernel is compared with: row by row, nonzero by nonzero, sums in double.
// C is double, row-major, m x k. `absolute` (m x k, may be null) receives |A| |B|, the scale of the rounding error.
void reference_product(const csr_view& matrix, const dense_view& B, layout order, double* C, double* absolute);

// Minimum number of bytes that a product moves: A in CSR once, B once, C once. Rows of B that no nonzero refers to are
// not counted.
std::int64_t product_floor_bytes(const csr_pattern& matrix, std::int64_t k, value_type dtype);

}  // namespace warploom
