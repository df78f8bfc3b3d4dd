#include "kernels/hybrid_vectors/hybrid_vectors.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "kernels/column_vectors/column_vectors.hpp"
#include "kernels/description.hpp"
#include "kernels/row_split/row_split.hpp"
#include "kernels/spmm/cpu_transposing_plan.hpp"
#include "kernels/spmm/widening_plan.hpp"
#include "warploom/error.hpp"
#include "warploom/formats/format.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

convert_on_gpu_function hybrid_vectors_on_gpu;
prepare_cuda_function prepare_cuda_spmm_hybrid_vectors_tensor_core;
prepare_cuda_function prepare_cuda_spmm_hybrid_vectors_tensor_core_tf32;

namespace {

constexpr std::int64_t windows_per_task = 512;

bool stores_as_vectors(const csr_pattern& matrix, std::int64_t window, int nonzeros_per_vector,
                       std::vector<std::int64_t>& entries) {
  const std::int64_t first = window * column_vector.rows;
  const std::int64_t last = std::min(first + column_vector.rows, matrix.num_rows);
  entries.clear();
  for (std::int64_t row = first; row < last; ++row) {
    for (std::int64_t j = matrix.indptr[row]; j < matrix.indptr[row + 1]; ++j) {
      entries.push_back(std::int64_t{matrix.indices[j]} * column_vector.rows + (row - first));
    }
  }
  std::sort(entries.begin(), entries.end());
  std::int64_t vectors = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i > 0 && entries[i] == entries[i - 1]) return false;
    if (i == 0 || entries[i] / column_vector.rows != entries[i - 1] / column_vector.rows) ++vectors;
  }
  return is_stored_as_vectors(vectors, static_cast<std::int64_t>(entries.size()), nonzeros_per_vector);
}

// The entries of row `from` become those of row `to`, whose offsets are known.
void copy_row(const csr_matrix& from, std::int64_t row, csr_matrix& result, std::int64_t to) {
  const std::int64_t begin = from.indptr[row];
  const std::int64_t length = from.indptr[row + 1] - begin;
  if (length == 0) return;  // memcpy needs valid pointers even for 0 bytes
  const std::size_t size = size_of(from.dtype);
  std::memcpy(result.indices.data() + result.indptr[to], from.indices.data() + begin, length * sizeof(std::int32_t));
  std::memcpy(result.data.data() + result.indptr[to] * size, from.data.data() + begin * size, length * size);
}

// ---- On the CPU

void multiply_others(const balanced_rows& rows, const parameter_values&, const dense_view& B, const dense_view& C) {
  dispatch_wide_value_type(rows.rows.dtype, [&]<class Value>(Value) {
    multiply_rows<row_split_tile_width<Value>, Value, layout::row_major>(rows, row_split_panel_width, B, C);
  });
}

class hybrid_plan final : public product_plan {
 public:
  hybrid_plan(std::unique_ptr<product_plan> others, std::unique_ptr<product_plan> vectors)
      : others_(std::move(others)), vectors_(std::move(vectors)) {}

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    others_->run(B, C, stream);  // clears the rows of the vectors
    vectors_->run(B, C, stream);
  }

  std::size_t bytes() const override { return others_->bytes() + vectors_->bytes(); }

 private:
  std::unique_ptr<product_plan> others_;
  std::unique_ptr<product_plan> vectors_;
};

std::vector<std::int32_t> permuted(std::vector<std::int32_t> rows, const std::vector<std::int32_t>& perm) {
  if (!perm.empty()) {
    for (std::int32_t& row : rows) row = perm[row];
  }
  return rows;
}

template <product_precision Precision>
std::unique_ptr<product_plan> prepare_cpu(const csr_view& given, const product_request& request) {
  return in_float32_at_least(given, request, [](const csr_view& matrix, const product_request& same) {
    const row_storage all = store_all_rows(matrix, same.perm);
    csr_view moved = matrix;
    moved.indptr = all.indptr.data();
    moved.indices = all.indices;
    moved.data = all.data;
    hybrid_vectors hybrid = to_hybrid_vectors(moved, same.parameters.at("nonzeros_per_vector"));
    auto vectors =
        make_column_vectors_plan(std::move(hybrid.vectors), permuted(hybrid.vector_rows, all.row_ids), Precision);
    row_storage others;
    others.num_rows = matrix.num_rows;
    others.num_cols = matrix.num_cols;
    others.dtype = matrix.dtype;
    others.indptr = hybrid.others.indptr;
    others.row_ids = permuted(std::move(hybrid.other_rows), all.row_ids);
    const auto owner = std::make_shared<const csr_matrix>(std::move(hybrid.others));
    others.indices = owner->indices.data();
    others.data = owner->data.data();
    others.owner = owner;
    auto plan = std::make_unique<hybrid_plan>(make_rows_plan(std::move(others), same.parameters, multiply_others),
                                              std::move(vectors));
    return in_requested_order(std::move(plan), matrix, same.order);
  });
}

// ---- Descriptions

// Threads are numbered in 32 bits, and a segment of a row takes up to 32.
std::string thread_limit(const matrix_summary& matrix, const product_request& request) {
  const std::int64_t warps = matrix.num_rows + matrix.nnz / request.parameters.at("segment_length");
  return warps < std::int64_t{1} << 27 ? "" : "would need " + std::to_string(32 * warps) + " threads";
}

const std::vector<parameter> parameters{
    {"nonzeros_per_vector",
     2,
     {2, 3, 4, 6},
     {2, 4},
     true,
     "windows whose vectors hold as many nonzeros or more, on average, are multiplied on tensor cores"},
    {"segment_length",
     128,
     {32, 64, 128, 256, 512},
     {128},
     false,
     "maximum number of vectors that a warp takes of a window, and of nonzeros of another row"},
    {"launches", 1, {1, 2}, {1}, false, "kernels on a GPU: one for windows and other rows, or one for each"},
};

product_kernel on_tensor_cores(std::string name, std::string summary) {
  return {
      .op = operation::spmm,
      .name = std::move(name),
      .format = "hybrid-vectors",
      .summary = std::move(summary),
      .source = "own, after Shi et al. 2025 (FlashSparse)",
      .layouts = {layout::row_major, layout::column_major},
      .parameters = parameters,
      .from_device = true,
      .unsupported_reason = needs_int32_offsets,
      .launch_limit = thread_limit,
  };
}

}  // namespace

void check_nonzeros_per_vector(int nonzeros_per_vector) {
  if (nonzeros_per_vector >= 1 && nonzeros_per_vector <= column_vector.rows) return;
  throw error(error_kind::parameter, "nonzeros_per_vector", -1,
              "nonzeros_per_vector must be 1 to 8, got " + std::to_string(nonzeros_per_vector));
}

std::size_t hybrid_vectors::bytes() const {
  return (vector_rows.size() + other_rows.size()) * sizeof(std::int32_t) + vectors.bytes() + others.bytes();
}

hybrid_vectors to_hybrid_vectors(const csr_view& matrix, int nonzeros_per_vector) {
  check_nonzeros_per_vector(nonzeros_per_vector);
  const std::int64_t windows = (matrix.num_rows + column_vector.rows - 1) / column_vector.rows;
  std::vector<char> chosen(windows);
  parallel_for(0, windows, windows_per_task, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> entries;
    for (std::int64_t window = begin; window < end; ++window) {
      chosen[window] = stores_as_vectors(matrix, window, nonzeros_per_vector, entries);
    }
  });
  hybrid_vectors result;
  result.num_rows = matrix.num_rows;
  result.num_cols = matrix.num_cols;
  result.dtype = matrix.dtype;
  result.nonzeros_per_vector = nonzeros_per_vector;
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) {
    auto& rows = chosen[row / column_vector.rows] ? result.vector_rows : result.other_rows;
    rows.push_back(static_cast<std::int32_t>(row));
  }
  result.vectors = to_bsr(permute_rows(matrix, result.vector_rows).view(), column_vector);
  result.others = permute_rows(matrix, result.other_rows);
  return result;
}

csr_matrix to_csr(const hybrid_vectors& matrix) {
  const csr_matrix of_vectors = to_csr(matrix.vectors);
  csr_matrix result = empty_csr(matrix.num_rows, matrix.num_cols, matrix.dtype);
  const auto for_each_row = [&](auto function) {
    for (std::size_t p = 0; p < matrix.vector_rows.size(); ++p) function(of_vectors, p, matrix.vector_rows[p]);
    for (std::size_t p = 0; p < matrix.other_rows.size(); ++p) function(matrix.others, p, matrix.other_rows[p]);
  };
  for_each_row([&](const csr_matrix& from, std::size_t p, std::int32_t row) {
    result.indptr[row + 1] = from.indptr[p + 1] - from.indptr[p];
  });
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) result.indptr[row + 1] += result.indptr[row];
  result.indices.resize(result.indptr.back());
  result.data.resize(result.indptr.back() * size_of(matrix.dtype));
  for_each_row([&](const csr_matrix& from, std::size_t p, std::int32_t row) {
    copy_row(from, static_cast<std::int64_t>(p), result, row);
  });
  return result;
}

std::vector<format_field> hybrid_vectors::fields() const {
  return {
      {"nonzeros_per_vector", std::int64_t{nonzeros_per_vector}},
      {"vector_rows", array_of(vector_rows)},
      {"vectors", part_of(vectors)},
      {"other_rows", array_of(other_rows)},
      {"others", part_of(others)},
  };
}

product_kernel spmm_hybrid_vectors_tensor_core() {
  product_kernel kernel = on_tensor_cores(
      "tensor_core",
      "Tensor cores on windows of 8 rows whose column vectors hold enough nonzeros, and row_split on segments of all "
      "other rows. On a GPU zeros filled into a vector are multiplied: a NaN or infinity in B reaches "
      "all 8 rows.");
  kernel.dtypes = {value_type::float16, value_type::bfloat16};
  kernel.prepare_cpu = prepare_cpu<product_precision::full>;
  kernel.prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmm_hybrid_vectors_tensor_core);
  return kernel;
}

product_kernel spmm_hybrid_vectors_tensor_core_tf32() {
  product_kernel kernel = on_tensor_cores(
      "tensor_core_tf32",
      "Tensor cores on windows of 8 rows whose column vectors hold enough nonzeros, in TF32: values of A and B are "
      "rounded to 11 significant bits, sums are in float32; and row_split on segments of all other rows, in float32. "
      "Only where precision=\"tf32\" asks for it, or its name. On a GPU zeros filled into a vector are multiplied: a "
      "NaN or infinity in B reaches all 8 rows.");
  kernel.dtypes = {value_type::float32};
  kernel.precision = product_precision::tf32;
  kernel.prepare_cpu = prepare_cpu<product_precision::tf32>;
  kernel.prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmm_hybrid_vectors_tensor_core_tf32);
  return kernel;
}

format_description hybrid_vectors_format() {
  return {
      .name = "hybrid-vectors",
      .options = {{"nonzeros_per_vector", 2, {1, 2, 3}}},
      .from_csr =
          [](const csr_view& matrix, const option_values& options) {
            return stored(to_hybrid_vectors(matrix, options.integer("nonzeros_per_vector")));
          },
      .from_csr_on_gpu = WARPLOOM_CUDA(hybrid_vectors_on_gpu),
  };
}

}  // namespace warploom
