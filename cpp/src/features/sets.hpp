// The feature sets that registry.cpp lists, and what they share between host and GPU.
#pragma once

#include "features/cache_lines.hpp"
#include "features/summary.hpp"
#include "warploom/features.hpp"

namespace warploom {

extern const feature_set spmm_features;
extern const feature_set spmv_features;

struct matrix_size {
  std::int64_t num_rows;
  std::int64_t num_cols;
  std::int64_t nnz;
};

// What the features are made of.
struct spmm_statistics {
  matrix_size size;
  summary row_lengths;
  summary warp_load;
  cache_line_summaries lines;
};

struct spmv_statistics {
  matrix_size size;
  summary row_lengths;
  double row_length_variance;
};

// The values in the order of the names.
void write_features(const spmm_statistics& statistics, double* values);
void write_features(const spmv_statistics& statistics, double* values);

// What a pass over indptr in GPU memory finds.
struct row_statistics {
  spmv_statistics lengths;
  std::int64_t empty_rows;
};

// Defined in spmm.cu and spmv.cu.
pending_features start_cuda_spmm_features(const device_csr_arrays& matrix, const geometry& shape, CUstream_st* stream);
row_statistics compute_cuda_row_statistics(const device_csr_arrays& matrix, CUstream_st* stream);
pending_features start_cuda_spmv_features(const device_csr_arrays& matrix, const geometry& shape, CUstream_st* stream);

}  // namespace warploom
