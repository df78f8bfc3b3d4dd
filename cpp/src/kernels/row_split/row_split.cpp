// Rows over threads: row-major B and C, each nonzero adds a scaled part of a row of B to a part of a row of C.
// Column-major operands are transposed before and after.
#include "kernels/row_split/row_split.hpp"

#include <algorithm>
#include <bit>

#include "kernels/padded_csr/padded_csr.hpp"
#include "kernels/row_split/row_loads.hpp"
#include "kernels/spmm/cpu_transposing_plan.hpp"
#include "kernels/spmm/padded.hpp"
#include "kernels/spmm/segmented.hpp"
#include "kernels/spmm/segments.hpp"
#include "kernels/spmm/widening_plan.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmm_csr_row_split;
prepare_cuda_function prepare_cuda_spmm_dcsr_row_split;
prepare_cuda_function prepare_cuda_spmm_padded_csr_row_split;
prepare_cuda_function prepare_cuda_spmm_segmented_csr_row_split;

namespace {

// ---- On the CPU

void row_split(const balanced_rows& rows, const parameter_values&, const dense_view& B, const dense_view& C) {
  dispatch_wide_value_type(rows.rows.dtype, [&]<class Value>(Value) {
    multiply_rows<row_split_tile_width<Value>, Value, layout::row_major>(rows, row_split_panel_width, B, C);
  });
}

std::unique_ptr<product_plan> prepare_cpu_dcsr(const csr_view& given, const product_request& request) {
  return in_float32_at_least(given, request, [](const csr_view& matrix, const product_request& same) {
    auto plan = make_rows_plan(store_nonempty_rows(matrix, same.perm), same.parameters, row_split);
    return in_requested_order(std::move(plan), matrix, same.order);
  });
}

std::unique_ptr<product_plan> prepare_cpu_padded_csr(const csr_view& given, const product_request& request) {
  return in_float32_at_least(given, request, [](const csr_view& matrix, const product_request& same) {
    auto plan = make_padded_plan(to_padded(store_all_rows(matrix, same.perm)), layout::row_major);
    return in_requested_order(std::move(plan), matrix, same.order);
  });
}

std::unique_ptr<product_plan> prepare_cpu_segmented_csr(const csr_view& given, const product_request& request) {
  return in_float32_at_least(given, request, make_segmented_plan_in_requested_order);
}

// ---- Descriptions

const parameter threads_per_row{"threads_per_row", 32,    {1, 2, 4, 8, 16, 32},
                                {8, 16, 32},       false, "threads that work on a row"};
const parameter column_threads{
    "column_threads",
    0,
    {0, 2, 4, 8, 16},
    {0, 8},
    false,
    "of these, threads on neighbouring columns of C; 0: as many as k needs. The others share "
    "the nonzeros of the row"};
const parameter threads_per_block{"threads_per_block", 128, {64, 128, 256}, {128}, false, "threads per thread block"};

parameter columns_per_thread(std::vector<int> tried) {
  return {"columns_per_thread", 4,     {1, 2, 4, 8, 16},
          std::move(tried),     false, "columns of C whose sums a thread holds; 16: in two-byte types, 8 in others"};
}

parameter unroll(std::vector<int> tried) {
  return {"unroll", 4,
          {4, 8},   std::move(tried),
          false,    "nonzeros whose rows of B are loaded at once, where a thread holds one vector of columns"};
}

const std::vector<parameter> row_split_parameters{threads_per_row, column_threads, columns_per_thread({4, 8}),
                                                  threads_per_block, unroll({4})};

const std::vector<parameter> padded_parameters{threads_per_row, column_threads, columns_per_thread({2, 4, 8}),
                                               threads_per_block, unroll({4, 8})};

const std::vector<parameter> segmented_parameters{
    threads_per_row, column_threads, columns_per_thread({4, 8}), threads_per_block,
    unroll({4, 8}),  segment_length, longest_first(1, {1}),      by_column({0}),
};

std::string padded_reason(const matrix_summary& matrix, const product_request&) {
  return padding_reason(padded_width(matrix.longest_row) * matrix.num_rows, matrix.nnz);
}

// Threads side by side that k columns do not need, or more columns for each than it holds.
bool too_many_columns(const matrix_summary& matrix, const product_request& request) {
  const int per_thread = request.parameters.at("columns_per_thread");
  if (per_thread > most_columns_per_thread(size_of(matrix.dtype))) return true;
  const int side_by_side = request.parameters.at("column_threads");
  if (side_by_side == 0) return false;
  const auto needed = static_cast<std::uint64_t>((request.k + per_thread - 1) / per_thread);
  const std::uint64_t most = std::min<std::uint64_t>(request.parameters.at("threads_per_row"), 32);
  return static_cast<std::uint64_t>(side_by_side) >= std::min(most, std::bit_ceil(needed));
}

bool redundant_on_dcsr(const matrix_summary& matrix, const product_request& request) {
  return too_many_columns(matrix, request) || matrix.shortest_row > 0;  // without empty rows, DCSR is CSR
}

bool redundant_on_segments(const matrix_summary& matrix, const product_request& request) {
  return too_many_columns(matrix, request) || redundant_segments(matrix, request);
}

// Threads of a tile of columns are numbered in 32 bits.
std::string too_many_threads(std::int64_t rows_or_segments, const product_request& request) {
  const std::int64_t threads = rows_or_segments * request.parameters.at("threads_per_row");
  if (threads < std::int64_t{1} << 32) return "";
  return "would need " + std::to_string(threads) +
         " threads, at most 4294967295 can be numbered; use fewer "
         "threads_per_row";
}

std::string thread_limit(const matrix_summary& matrix, const product_request& request) {
  return too_many_threads(matrix.num_rows, request);
}

std::string segment_thread_limit(const matrix_summary& matrix, const product_request& request) {
  return too_many_threads(max_segments(matrix, request), request);
}

}  // namespace

std::unique_ptr<product_plan> prepare_cpu_spmm_csr(const csr_view& given, const product_request& request) {
  return in_float32_at_least(given, request, [](const csr_view& matrix, const product_request& same) {
    auto plan = make_rows_plan(store_all_rows(matrix, same.perm), same.parameters, row_split);
    return in_requested_order(std::move(plan), matrix, same.order);
  });
}

product_kernel spmm_csr_row_split() {
  return {
      .op = operation::spmm,
      .name = "row_split",
      .format = "csr",
      .summary = "Threads side by side on the columns of a row of C; column-major B and C are transposed.",
      .source = "own",
      .layouts = {layout::row_major, layout::column_major},
      .parameters = row_split_parameters,
      .dtypes = all_value_types,
      .from_device = true,
      .tried_on_cpu = true,
      .baseline_for = {layout::row_major},
      .redundant = too_many_columns,
      .unsupported_reason = no_reason,
      .launch_limit = thread_limit,
      .prepare_cpu = prepare_cpu_spmm_csr,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmm_csr_row_split),
  };
}

product_kernel spmm_dcsr_row_split() {
  return {
      .op = operation::spmm,
      .name = "row_split",
      .format = "dcsr",
      .summary = "row_split over the nonempty rows only; the empty rows of C are cleared.",
      .source = "own",
      .layouts = {layout::row_major, layout::column_major},
      .parameters = row_split_parameters,
      .dtypes = all_value_types,
      .from_device = true,
      .tried_on_cpu = true,
      .redundant = redundant_on_dcsr,
      .unsupported_reason = no_reason,
      .launch_limit = thread_limit,
      .prepare_cpu = prepare_cpu_dcsr,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmm_dcsr_row_split),
  };
}

product_kernel spmm_segmented_csr_row_split() {
  return {
      .op = operation::spmm,
      .name = "row_split",
      .format = "segmented-csr",
      .summary = "row_split with long rows cut into segments, whose partial sums are added in a fixed order.",
      .source = "own",
      .layouts = {layout::row_major, layout::column_major},
      .parameters = segmented_parameters,
      .dtypes = all_value_types,
      .from_device = true,
      .redundant = redundant_on_segments,
      .unsupported_reason = needs_int32_offsets,
      .launch_limit = segment_thread_limit,
      .prepare_cpu = prepare_cpu_segmented_csr,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmm_segmented_csr_row_split),
  };
}

product_kernel spmm_padded_csr_row_split() {
  return {
      .op = operation::spmm,
      .name = "row_split",
      .format = "padded-csr",
      .summary = "row_split over rows padded to one length, which are found without reading row offsets.",
      .source = "own",
      .layouts = {layout::row_major, layout::column_major},
      .parameters = padded_parameters,
      .dtypes = all_value_types,
      .from_device = true,
      .for_large = true,
      .redundant = too_many_columns,
      .unsupported_reason = padded_reason,
      .launch_limit = thread_limit,
      .prepare_cpu = prepare_cpu_padded_csr,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmm_padded_csr_row_split),
  };
}

}  // namespace warploom
