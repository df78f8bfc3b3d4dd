// Column vectors: 8 or 16 rows, a window, share each column index, so that a row of B is read once for all of them. As
// BSR with blocks of 8 x 1 or 16 x 1 it is stored by the code of BSR.
#include "kernels/column_vectors/column_vectors.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/bsr/reason.hpp"
#include "kernels/cpu/tf32.hpp"
#include "kernels/cpu/work_ranges.hpp"
#include "kernels/csr/row_storage.hpp"
#include "kernels/description.hpp"
#include "kernels/spmm/cpu_transposing_plan.hpp"
#include "kernels/spmm/widening_plan.hpp"
#include "warploom/error.hpp"
#include "warploom/formats/bsr.hpp"
#include "warploom/formats/format.hpp"

namespace warploom {

convert_on_gpu_function column_vectors_on_gpu;
prepare_cuda_function prepare_cuda_spmm_column_vectors_tensor_core;
prepare_cuda_function prepare_cuda_spmm_column_vectors_tensor_core_tf32;

namespace {

// ---- On the CPU

// In float32, of operands that are rounded to TF32 if `Rounds`. Fill-in is not multiplied, unlike on a GPU.
template <bool Rounds>
class column_vectors_plan final : public product_plan {
 public:
  column_vectors_plan(bsr_matrix matrix, std::vector<std::int32_t> row_ids)
      : matrix_(std::move(matrix)), row_ids_(std::move(row_ids)) {
    ranges_ = balance_work(matrix_.num_block_rows(),
                           [&](std::int64_t window) { return matrix_.indptr[window + 1] - matrix_.indptr[window]; });
  }

  void run(const dense_view& B, const dense_view& C, CUstream_st*) override {
    constexpr std::int64_t panel_width = 128;
    for_each_panel(ranges_, C.num_cols, panel_width,
                   [&](std::int64_t begin, std::int64_t end, std::int64_t first_column, std::int64_t columns) {
                     for (std::int64_t window = begin; window < end; ++window) {
                       multiply(window, B, C, first_column, columns);
                     }
                   });
  }

  std::size_t bytes() const override { return matrix_.bytes() + row_ids_.size() * sizeof(row_ids_[0]); }

 private:
  void multiply(std::int64_t window, const dense_view& B, const dense_view& C, std::int64_t first_column,
                std::int64_t columns) const {
    const int height = matrix_.block.rows;
    const auto* values = reinterpret_cast<const float*>(matrix_.data.data());
    const auto row_of_C = [&](int i) {
      const std::int64_t p = window * height + i;
      const std::int64_t row = row_ids_.empty() ? p : row_ids_[p];
      return static_cast<float*>(C.data) + row * C.leading_dimension + first_column;
    };
    const int rows = static_cast<int>(std::min<std::int64_t>(height, matrix_.num_rows - window * height));
    for (int i = 0; i < rows; ++i) std::fill_n(row_of_C(i), columns, 0.0f);
    for (std::int64_t vector = matrix_.indptr[window]; vector < matrix_.indptr[window + 1]; ++vector) {
      const auto* b = static_cast<const float*>(B.data) + matrix_.indices[vector] * B.leading_dimension + first_column;
      for (int i = 0; i < rows; ++i) {
        if ((matrix_.occupied[vector] >> i & 1) == 0) continue;
        const float a = operand(values[vector * height + i]);
        float* const c = row_of_C(i);
        for (std::int64_t j = 0; j < columns; ++j) c[j] += a * operand(b[j]);
      }
    }
  }

  static float operand(float value) { return Rounds ? rounded_to_tf32(value) : value; }

  bsr_matrix matrix_;
  std::vector<std::int32_t> row_ids_;  // empty: the caller's order
  work_ranges ranges_;
};

}  // namespace

block_shape vectors_of(int rows) {
  for (const block_shape shape : {column_vector, tall_column_vector}) {
    if (shape.rows == rows) return shape;
  }
  throw error(error_kind::parameter, "vector_rows", -1, "vector_rows must be 8 or 16, got " + std::to_string(rows));
}

std::unique_ptr<product_plan> make_column_vectors_plan(bsr_matrix vectors, std::vector<std::int32_t> row_ids,
                                                       product_precision precision) {
  if (precision == product_precision::tf32) {
    return std::make_unique<column_vectors_plan<true>>(std::move(vectors), std::move(row_ids));
  }
  return std::make_unique<column_vectors_plan<false>>(std::move(vectors), std::move(row_ids));
}

namespace {

template <product_precision Precision>
std::unique_ptr<product_plan> prepare_cpu(const csr_view& given, const product_request& request) {
  return in_float32_at_least(given, request, [](const csr_view& matrix, const product_request& same) {
    row_storage rows = store_all_rows(matrix, same.perm);
    csr_view moved = matrix;
    moved.indptr = rows.indptr.data();
    moved.indices = rows.indices;
    moved.data = rows.data;
    bsr_matrix vectors = to_bsr(moved, vectors_of(same.parameters.at("vector_rows")));
    auto plan = make_column_vectors_plan(std::move(vectors), rows.row_ids, Precision);
    return in_requested_order(std::move(plan), matrix, same.order);
  });
}

// ---- Descriptions

std::string pattern_reason(const csr_view& matrix, const product_request& request) {
  const bool repeats = size_of(matrix.dtype) == 2 && has_repeated_entries(matrix);
  const block_shape vector = vectors_of(request.parameters.at("vector_rows"));
  return bsr_reason(matrix.dtype, vector, repeats, repeats ? 0 : bsr_places(matrix, vector), matrix.nnz());
}

// Threads are numbered in 32 bits.
std::string thread_limit(const matrix_summary& matrix, const product_request& request) {
  const std::int64_t warps = (matrix.num_rows + 7) / 8 + matrix.nnz / request.parameters.at("segment_length");
  return warps < std::int64_t{1} << 27 ? "" : "would need " + std::to_string(32 * warps) + " threads";
}

const std::vector<parameter> parameters{
    {"vector_rows", 8, {8, 16}, {8, 16}, false, "rows of a window, which share its column vectors"},
    {"segment_length",
     128,
     {32, 64, 128, 256, 512},
     {64, 256},
     false,
     "maximum number of vectors that a warp takes of a window"}};

}  // namespace

product_kernel spmm_column_vectors_tensor_core() {
  return {
      .op = operation::spmm,
      .name = "tensor_core",
      .format = "column-vectors",
      .summary =
          "Tensor cores on vectors of 8 or 16 rows and one column. On a GPU zeros filled into a vector are multiplied: "
          "a NaN or infinity in B reaches all of them.",
      .source = "own, after Shi et al. 2025 (FlashSparse)",
      .layouts = {layout::row_major, layout::column_major},
      .parameters = parameters,
      .dtypes = {value_type::float16, value_type::bfloat16},
      .from_device = true,
      .unsupported_reason = needs_int32_offsets,
      .pattern_reason = pattern_reason,
      .launch_limit = thread_limit,
      .prepare_cpu = prepare_cpu<product_precision::full>,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmm_column_vectors_tensor_core),
  };
}

product_kernel spmm_column_vectors_tensor_core_tf32() {
  return {
      .op = operation::spmm,
      .name = "tensor_core_tf32",
      .format = "column-vectors",
      .summary =
          "Tensor cores on vectors of 8 or 16 rows and one column, in TF32: values of A and B are rounded to 11 "
          "significant bits, sums are in float32. Only where precision=\"tf32\" asks for it, or its name. On a GPU "
          "zeros filled into a vector are multiplied: a NaN or infinity in B reaches all of them.",
      .source = "own, after Shi et al. 2025 (FlashSparse)",
      .layouts = {layout::row_major, layout::column_major},
      .parameters = parameters,
      .dtypes = {value_type::float32},
      .from_device = true,
      .precision = product_precision::tf32,
      .unsupported_reason = needs_int32_offsets,
      .pattern_reason = pattern_reason,
      .launch_limit = thread_limit,
      .prepare_cpu = prepare_cpu<product_precision::tf32>,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmm_column_vectors_tensor_core_tf32),
  };
}

format_description column_vectors_format() {
  return {
      .name = "column-vectors",
      .options = {{"vector_rows", 8, {8, 16}}},
      .adds_repeated = true,
      .from_csr =
          [](const csr_view& matrix, const option_values& options) {
            return stored(to_bsr(matrix, vectors_of(options.integer("vector_rows"))));
          },
      .from_csr_on_gpu = WARPLOOM_CUDA(column_vectors_on_gpu),
  };
}

}  // namespace warploom
