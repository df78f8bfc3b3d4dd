// The visible list of SpMM kernels: a new one is a file, its entry points and an entry here.
#include <algorithm>
#include <limits>
#include <string>

#include "kernels/cpu/spmm/prepare.hpp"
#include "kernels/cuda/spmm/prepare.hpp"
#include "warploom/cusparse.hpp"
#include "warploom/error.hpp"
#include "warploom/formats/padded_csr.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {
namespace {

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

// What selection by measurement tries was chosen from sweeps on an H200: leaving any other value out cost less than 1
// %.
const parameter segment_length{"segment_length", 128,  {16, 32, 64, 128, 256, 512},
                               {32, 128, 512},   true, "most nonzeros of a row that are summed in one piece"};

parameter longest_first(int default_value, std::vector<int> tried) {
  return {"longest_first",  default_value, {0, 1},
          std::move(tried), false,         "1: segments in decreasing order of length; 0: in the order of the rows"};
}

const std::vector<parameter> segmented_c_stationary_parameters{
    {"threads_per_row", 8, {1, 2, 4, 8, 16, 32}, {4, 8, 32}, false, "threads that share the nonzeros of a segment"},
    c_stationary_parameters[1],
    {"rows_per_block", 32, {0, 32, 64, 128, 256, 512}, {32}, false, "segments per thread block; 0: all of them"},
    segment_length,
    longest_first(0, {0, 1}),
};

const parameter threads_per_row{"threads_per_row", 32,    {1, 2, 4, 8, 16, 32},
                                {8, 16, 32},       false, "threads that work on a row"};
const parameter column_threads{
    "column_threads",
    0,
    {0, 2, 4, 8, 16},
    {0, 8},
    false,
    "of these, threads side by side on the columns of C, 0: as many as k needs; the others share "
    "the nonzeros of the row"};
const parameter threads_per_block{"threads_per_block", 128, {64, 128, 256}, {128}, false, "threads per thread block"};

parameter columns_per_thread(std::vector<int> tried) {
  return {"columns_per_thread", 4, {1, 2, 4, 8}, std::move(tried), false, "columns of C whose sums a thread holds"};
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
    unroll({4, 8}),  segment_length, longest_first(1, {1}),
};

const std::vector<parameter> cusparse_csr_parameters{
    {"algorithm", 0, {0, 1, 2, 3}, {0, 1, 2, 3}, false, "0: the library's default; n: CUSPARSE_SPMM_CSR_ALGn"},
};

const std::vector<parameter> cusparse_coo_parameters{
    {"algorithm", 0, {0, 1, 2, 3, 4}, {1, 2, 3, 4}, false, "0: the library's default; n: CUSPARSE_SPMM_COO_ALGn"},
};

constexpr std::int64_t most_blocks_y = 65535;  // of a CUDA grid

std::string c_stationary_reason(const csr_view& matrix, const product_request& request) {
  if (request.order != layout::column_major) return "needs column-major B and C";
  const std::int64_t rows = request.parameters.at("rows_per_block");
  const auto length = request.parameters.find("segment_length");
  const std::int64_t cuts = length == request.parameters.end() ? 0 : matrix.nnz() / length->second;
  if (rows > 0 && matrix.num_rows + cuts > rows * most_blocks_y)
    return "has too many rows for rows_per_block=" + std::to_string(rows);
  return "";
}

std::string no_reason(const csr_view&, const product_request&) { return ""; }

std::string offsets_reason(const csr_view& matrix, const product_request&) {
  return matrix.nnz() > std::numeric_limits<std::int32_t>::max() ? "needs fewer than 2^31 nonzeros" : "";
}

std::string segmented_c_stationary_reason(const csr_view& matrix, const product_request& request) {
  const std::string reason = c_stationary_reason(matrix, request);
  return reason.empty() ? offsets_reason(matrix, request) : reason;
}

// Room for some padding also in tiny matrices.
std::string padding_reason(const csr_view& matrix) {
  const std::int64_t stored = padded_width(matrix) * matrix.num_rows;
  if (stored <= 4 * matrix.nnz() + 4096) return "";
  return "would store " + std::to_string(stored) + " entries for " + std::to_string(matrix.nnz()) + " nonzeros";
}

std::string padded_row_split_reason(const csr_view& matrix, const product_request&) { return padding_reason(matrix); }

std::string padded_c_stationary_reason(const csr_view& matrix, const product_request& request) {
  const std::string reason = c_stationary_reason(matrix, request);
  return reason.empty() ? padding_reason(matrix) : reason;
}

std::string cusparse_reason(const csr_view& matrix, const product_request& request) {
  if (cusparse_version().empty()) return "needs cuSPARSE, which was not found";
  if (!request.perm.empty()) return "does not take a row permutation";
  return offsets_reason(matrix, request);
}

const std::vector<layout> both_layouts{layout::row_major, layout::column_major};

const std::vector<product_kernel> registered{
    {
        .name = "c_stationary",
        .format = "csr",
        .summary = "Algorithm 1 of Mehrabi et al. 2021: a tile of columns of C at a time, all rows over the warps.",
        .layouts = {layout::column_major},
        .parameters = c_stationary_parameters,
        .unsupported_reason = c_stationary_reason,
        .prepare_cpu = prepare_cpu_c_stationary_csr,
        .prepare_cuda = prepare_cuda_c_stationary_csr,
    },
    {
        .name = "c_stationary",
        .format = "dcsr",
        .summary = "c_stationary over the nonempty rows only; the empty rows of C are cleared.",
        .layouts = {layout::column_major},
        .parameters = c_stationary_parameters,
        .unsupported_reason = c_stationary_reason,
        .prepare_cpu = prepare_cpu_c_stationary_dcsr,
        .prepare_cuda = prepare_cuda_c_stationary_dcsr,
    },
    {
        .name = "row_split",
        .format = "csr",
        .summary = "Threads side by side on the columns of a row of C; column-major B and C are turned round.",
        .layouts = both_layouts,
        .parameters = row_split_parameters,
        .unsupported_reason = no_reason,
        .prepare_cpu = prepare_cpu_row_split_csr,
        .prepare_cuda = prepare_cuda_row_split_csr,
    },
    {
        .name = "row_split",
        .format = "dcsr",
        .summary = "row_split over the nonempty rows only; the empty rows of C are cleared.",
        .layouts = both_layouts,
        .parameters = row_split_parameters,
        .unsupported_reason = no_reason,
        .prepare_cpu = prepare_cpu_row_split_dcsr,
        .prepare_cuda = prepare_cuda_row_split_dcsr,
    },
    {
        .name = "row_split",
        .format = "segmented-csr",
        .summary = "row_split with long rows cut into segments, whose partial sums are added in a fixed order.",
        .layouts = both_layouts,
        .parameters = segmented_parameters,
        .unsupported_reason = offsets_reason,
        .prepare_cpu = prepare_cpu_row_split_segmented_csr,
        .prepare_cuda = prepare_cuda_row_split_segmented_csr,
    },
    {
        .name = "c_stationary",
        .format = "segmented-csr",
        .summary = "c_stationary with long rows cut into segments, whose partial sums are added in a fixed order.",
        .layouts = {layout::column_major},
        .parameters = segmented_c_stationary_parameters,
        .unsupported_reason = segmented_c_stationary_reason,
        .prepare_cpu = prepare_cpu_c_stationary_segmented_csr,
        .prepare_cuda = prepare_cuda_c_stationary_segmented_csr,
    },
    {
        .name = "c_stationary",
        .format = "padded-csr",
        .summary = "c_stationary over rows padded to one length, which are found without reading row offsets.",
        .layouts = {layout::column_major},
        .parameters = c_stationary_parameters,
        .unsupported_reason = padded_c_stationary_reason,
        .prepare_cpu = prepare_cpu_c_stationary_padded_csr,
        .prepare_cuda = prepare_cuda_c_stationary_padded_csr,
    },
    {
        .name = "row_split",
        .format = "padded-csr",
        .summary = "row_split over rows padded to one length, which are found without reading row offsets.",
        .layouts = both_layouts,
        .parameters = padded_parameters,
        .unsupported_reason = padded_row_split_reason,
        .prepare_cpu = prepare_cpu_row_split_padded_csr,
        .prepare_cuda = prepare_cuda_row_split_padded_csr,
    },
    {
        .name = "cusparse",
        .format = "csr",
        .summary = "The vendor's library on CSR, preprocessed.",
        .layouts = both_layouts,
        .parameters = cusparse_csr_parameters,
        .permutes = false,
        .reproducible = false,
        .on_cpu = false,
        .unsupported_reason = cusparse_reason,
        .prepare_cpu = nullptr,
        .prepare_cuda = prepare_cuda_cusparse_csr,
    },
    {
        .name = "cusparse",
        .format = "coo",
        .summary = "The vendor's library on COO, preprocessed.",
        .layouts = both_layouts,
        .parameters = cusparse_coo_parameters,
        .permutes = false,
        .reproducible = false,
        .on_cpu = false,
        .unsupported_reason = cusparse_reason,
        .prepare_cpu = nullptr,
        .prepare_cuda = prepare_cuda_cusparse_coo,
    },
};

}  // namespace

std::span<const product_kernel> spmm_kernels() { return registered; }

}  // namespace warploom
