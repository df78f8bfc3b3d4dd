// The 24 features of Mehrabi et al. 2021, Table II, in its order.
#include <array>

#include "device/cuda_function.hpp"
#include "features/cache_lines.hpp"
#include "features/row_lengths.hpp"
#include "features/sets.hpp"
#include "features/warp_load.hpp"

namespace warploom {
namespace {

constexpr std::array<const char*, 24> names = {
    "num_rows",
    "num_cols",
    "density",
    "nnz_per_row_min",
    "nnz_per_row_mean",
    "nnz_per_row_max",
    "nnz_blocks_per_row_min",
    "nnz_blocks_per_row_mean",
    "nnz_blocks_per_row_max",
    "warp_load_min",
    "warp_load_mean",
    "warp_load_max",
    "same_cache_lines_min",
    "same_cache_lines_mean",
    "same_cache_lines_max",
    "distinct_cache_lines_per_warp_min",
    "distinct_cache_lines_per_warp_mean",
    "distinct_cache_lines_per_warp_max",
    "total_cache_lines_per_warp_min",
    "total_cache_lines_per_warp_mean",
    "total_cache_lines_per_warp_max",
    "adjacent_vector_distance_min",
    "adjacent_vector_distance_mean",
    "adjacent_vector_distance_max",
};

void compute(const csr_pattern& matrix, const geometry& shape, double* values) {
  write_features(spmm_statistics{{matrix.num_rows, matrix.num_cols, matrix.nnz()},
                                 summarise_row_lengths(matrix),
                                 summarise_warp_load(matrix, shape),
                                 summarise_cache_lines(matrix, shape)},
                 values);
}

}  // namespace

void write_features(const spmm_statistics& statistics, double* values) {
  const auto write = [&](double value) { *values++ = value; };
  const auto write_summary = [&](const summary& of) {
    write(static_cast<double>(of.min()));
    write(of.mean());
    write(static_cast<double>(of.max()));
  };
  const cache_line_summaries& lines = statistics.lines;
  write(static_cast<double>(statistics.size.num_rows));
  write(static_cast<double>(statistics.size.num_cols));
  write(density(statistics.size));
  write_summary(statistics.row_lengths);
  write_summary(lines.blocks_per_row);
  write_summary(statistics.warp_load);
  write_summary(lines.requests_per_line);
  write_summary(lines.distinct_per_warp);
  write_summary(lines.total_per_warp);
  write_summary(lines.adjacent_distance);
}

constinit const feature_set spmm_features = {"spmm", names, compute, WARPLOOM_CUDA(start_cuda_spmm_features)};

}  // namespace warploom
