// The eleven features of Gao et al. 2024, Table 2, in its order. Only indptr is read, and the geometry does not matter.
//
// The paper calls its last feature "the covariance on non-zero elements per row" and gives it complexity O(1), once
// the variance is known. One variable has no covariance but its variance; the coefficient of variation (standard
// deviation / mean) has that cost and that abbreviation, and is what is computed.
#include <array>
#include <cmath>

#include "device/cuda_function.hpp"
#include "features/row_lengths.hpp"
#include "features/sets.hpp"

namespace warploom {
namespace {

constexpr std::array<const char*, 11> names = {
    "num_rows",
    "num_cols",
    "nnz",
    "density",
    "nnz_per_row_min",
    "nnz_per_row_max",
    "nnz_per_row_mean",
    "nnz_per_row_var",
    "nnz_per_row_max_minus_mean",
    "sqrt_nnz_per_row_mean",
    "nnz_per_row_cov",
};

void compute(const csr_pattern& matrix, const geometry&, double* values) {
  write_features(
      spmv_statistics{
          {matrix.num_rows, matrix.num_cols, matrix.nnz()}, summarise_row_lengths(matrix), row_length_variance(matrix)},
      values);
}

}  // namespace

void write_features(const spmv_statistics& statistics, double* values) {
  const auto write = [&](double value) { *values++ = value; };
  const summary& lengths = statistics.row_lengths;
  const double mean = lengths.mean();
  const double variance = statistics.row_length_variance;
  write(static_cast<double>(statistics.size.num_rows));
  write(static_cast<double>(statistics.size.num_cols));
  write(static_cast<double>(statistics.size.nnz));
  write(density(statistics.size));
  write(static_cast<double>(lengths.min()));
  write(static_cast<double>(lengths.max()));
  write(mean);
  write(variance);
  write(static_cast<double>(lengths.max()) - mean);
  write(std::sqrt(mean));
  write(mean > 0 ? std::sqrt(variance) / mean : 0.0);
}

constinit const feature_set spmv_features = {"spmv", names, compute, WARPLOOM_CUDA(start_cuda_spmv_features)};

}  // namespace warploom
