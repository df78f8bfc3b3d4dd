// Algorithm 1 of Mehrabi et al. 2021: column-major B and C, a tile of `tile_width` columns of C outermost, all rows
// inside. On the CPU each row's part of the tile is held in registers until it is finished.
#include <algorithm>

#include "kernels/padded_csr/padded_csr.hpp"
#include "kernels/spmm/padded.hpp"
#include "kernels/spmm/rows_plan.hpp"
#include "kernels/spmm/segmented.hpp"
#include "kernels/spmm/segments.hpp"
#include "kernels/spmm/widening_plan.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmm_csr_c_stationary;
prepare_cuda_function prepare_cuda_spmm_dcsr_c_stationary;
prepare_cuda_function prepare_cuda_spmm_padded_csr_c_stationary;
prepare_cuda_function prepare_cuda_spmm_segmented_csr_c_stationary;

namespace {

// ---- On the CPU

template <class Value>
void run(const balanced_rows& rows, int tile_width, const dense_view& B, const dense_view& C) {
  constexpr layout order = layout::column_major;
  switch (tile_width) {
    case 1:
      return multiply_rows<1, Value, order>(rows, 1, B, C);
    case 2:
      return multiply_rows<2, Value, order>(rows, 2, B, C);
    case 4:
      return multiply_rows<4, Value, order>(rows, 4, B, C);
    case 8:
      return multiply_rows<8, Value, order>(rows, 8, B, C);
    default:
      return multiply_rows<16, Value, order>(rows, tile_width, B, C);
  }
}

void c_stationary(const balanced_rows& rows, const parameter_values& parameters, const dense_view& B,
                  const dense_view& C) {
  const int tile_width = parameters.at("tile_width");
  dispatch_wide_value_type(rows.rows.dtype, [&]<class Value>(Value) { run<Value>(rows, tile_width, B, C); });
}

std::unique_ptr<product_plan> prepare_cpu_csr(const csr_view& given, const product_request& request) {
  return in_float32_at_least(given, request, [](const csr_view& matrix, const product_request& same) {
    return make_rows_plan(store_all_rows(matrix, same.perm), same.parameters, c_stationary);
  });
}

std::unique_ptr<product_plan> prepare_cpu_dcsr(const csr_view& given, const product_request& request) {
  return in_float32_at_least(given, request, [](const csr_view& matrix, const product_request& same) {
    return make_rows_plan(store_nonempty_rows(matrix, same.perm), same.parameters, c_stationary);
  });
}

std::unique_ptr<product_plan> prepare_cpu_padded_csr(const csr_view& given, const product_request& request) {
  return in_float32_at_least(given, request, [](const csr_view& matrix, const product_request& same) {
    return make_padded_plan(to_padded(store_all_rows(matrix, same.perm)), layout::column_major);
  });
}

std::unique_ptr<product_plan> prepare_cpu_segmented_csr(const csr_view& given, const product_request& request) {
  return in_float32_at_least(given, request, make_segmented_plan_in_requested_order);
}

// ---- Descriptions

const std::vector<parameter> c_stationary_parameters{
    {"threads_per_row", 32, {1, 2, 4, 8, 16, 32}, {1, 4, 8, 32}, false, "threads that share the nonzeros of a row"},
    {"tile_width", 4, {1, 2, 4, 8, 16}, {4, 8, 16}, true, "columns of C whose sums a thread holds at a time"},
    {"rows_per_block",
     0,
     {0, 32, 64, 128, 256, 512},
     {0, 32, 256},
     false,
     "rows of C per thread block; 0: all of them"},
};

const std::vector<parameter> segmented_c_stationary_parameters{
    {"threads_per_row", 8, {1, 2, 4, 8, 16, 32}, {4, 8, 32}, false, "threads that share the nonzeros of a segment"},
    c_stationary_parameters[1],
    {"rows_per_block", 32, {0, 32, 64, 128, 256, 512}, {32}, false, "segments per thread block; 0: all of them"},
    segment_length,
    longest_first(0, {0, 1}),
};

constexpr std::int64_t max_blocks_y = 65535;  // of a CUDA grid

std::string reason(const matrix_summary& matrix, const product_request& request) {
  const std::int64_t rows = request.parameters.at("rows_per_block");
  const auto length = request.parameters.find("segment_length");
  const std::int64_t cuts = length == request.parameters.end() ? 0 : matrix.nnz / length->second;
  if (rows > 0 && matrix.num_rows + cuts > rows * max_blocks_y)
    return "has too many rows for rows_per_block=" + std::to_string(rows);
  return "";
}

std::string segmented_reason(const matrix_summary& matrix, const product_request& request) {
  const std::string found = reason(matrix, request);
  return found.empty() ? needs_int32_offsets(matrix, request) : found;
}

std::string padded_reason(const matrix_summary& matrix, const product_request& request) {
  const std::string found = reason(matrix, request);
  return found.empty() ? padding_reason(padded_width(matrix.longest_row) * matrix.num_rows, matrix.nnz) : found;
}

// All rows in one thread block for each tile of columns, where there are too few tiles to keep a GPU busy.
bool too_few_blocks(const matrix_summary&, const product_request& request) {
  const int width = request.parameters.at("tile_width");
  return request.parameters.at("rows_per_block") == 0 && (request.k + width - 1) / width < 64;
}

// Without empty rows, DCSR is CSR.
bool no_empty_row(const matrix_summary& matrix, const product_request&) { return matrix.shortest_row > 0; }

}  // namespace

product_kernel spmm_csr_c_stationary() {
  return {
      .op = operation::spmm,
      .name = "c_stationary",
      .format = "csr",
      .summary =
          "Algorithm 1 of Mehrabi et al. 2021: a tile of columns of C at a time, all rows distributed over the warps.",
      .source = "Mehrabi et al. 2021, Algorithm 1",
      .layouts = {layout::column_major},
      .parameters = c_stationary_parameters,
      .dtypes = all_value_types,
      .from_device = true,
      .baseline_for = {layout::column_major},
      .redundant = too_few_blocks,
      .unsupported_reason = reason,
      .prepare_cpu = prepare_cpu_csr,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmm_csr_c_stationary),
  };
}

product_kernel spmm_dcsr_c_stationary() {
  return {
      .op = operation::spmm,
      .name = "c_stationary",
      .format = "dcsr",
      .summary = "c_stationary over the nonempty rows only; the empty rows of C are cleared.",
      .source = "Mehrabi et al. 2021, Algorithm 1",
      .layouts = {layout::column_major},
      .parameters = c_stationary_parameters,
      .dtypes = all_value_types,
      .from_device = true,
      .redundant = no_empty_row,
      .unsupported_reason = reason,
      .prepare_cpu = prepare_cpu_dcsr,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmm_dcsr_c_stationary),
  };
}

product_kernel spmm_segmented_csr_c_stationary() {
  return {
      .op = operation::spmm,
      .name = "c_stationary",
      .format = "segmented-csr",
      .summary = "c_stationary with long rows cut into segments, whose partial sums are added in a fixed order.",
      .source = "own",
      .layouts = {layout::column_major},
      .parameters = segmented_c_stationary_parameters,
      .dtypes = all_value_types,
      .from_device = true,
      .redundant = redundant_segments,
      .unsupported_reason = segmented_reason,
      .prepare_cpu = prepare_cpu_segmented_csr,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmm_segmented_csr_c_stationary),
  };
}

product_kernel spmm_padded_csr_c_stationary() {
  return {
      .op = operation::spmm,
      .name = "c_stationary",
      .format = "padded-csr",
      .summary = "c_stationary over rows padded to one length, which are found without reading row offsets.",
      .source = "own",
      .layouts = {layout::column_major},
      .parameters = c_stationary_parameters,
      .dtypes = all_value_types,
      .from_device = true,
      .redundant = too_few_blocks,
      .unsupported_reason = padded_reason,
      .prepare_cpu = prepare_cpu_padded_csr,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmm_padded_csr_c_stationary),
  };
}

}  // namespace warploom
