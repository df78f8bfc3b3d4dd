// Features: what the predictor knows about a matrix.
//
// A feature set is a registered list of names and two functions that fill their values in that order: one reads a
// matrix in host memory, one a matrix in the memory of a GPU. They agree exactly in what is counted, and to the last
// few bits in means and variances.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "warploom/csr_view.hpp"
#include "warploom/geometry.hpp"

struct CUstream_st;

namespace warploom {

class device_csr;

// The arrays of a CSR matrix in the memory of the current device. Only their sizes are known: the kernels that read
// them check whether they form a matrix.
struct device_csr_arrays {
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  std::int64_t num_indices = 0;   // entries of `indices`, at least as many as indptr ends at
  const void* indptr = nullptr;   // [num_rows + 1] of int32 or int64
  const void* indices = nullptr;  // [num_indices] of int32 or int64
  bool wide_indptr = false;       // int64
  bool wide_indices = false;
};

device_csr_arrays arrays_of(const device_csr& matrix);

// The features of the set "spmv" of a matrix in GPU memory: known since it was checked or uploaded.
std::vector<double> spmv_features_of(const device_csr& matrix);

// Features that a GPU is computing: waits for them and returns their values, once. Destroying it waits, too.
using pending_features = std::function<std::vector<double>()>;

struct feature_set {
  const char* name;                    // "spmm", "spmv"
  std::span<const char* const> names;  // in the order of the values
  void (*compute)(const csr_pattern&, const geometry&, double* values);
  // Enqueues its work on `stream`; the arrays must stay until that is done. What is returned throws invalid_matrix where
  // the arrays that the set reads do not form a matrix, as `validate` does.
  pending_features (*start_cuda)(const device_csr_arrays&, const geometry&, CUstream_st* stream);
};

// The features of a matrix, in the order of the names of each set; those of the pattern only where something reads
// them, since they take longer to compute.
struct matrix_features {
  std::vector<double> spmv;
  std::vector<double> spmm;            // empty if they were not computed
  std::vector<double> column_vectors;  // vector_features.hpp; empty if they were not computed
  std::vector<double> locality;        // of locality.hpp those that models take; empty if they were not computed
};

// The registry (cpp/src/features/registry.cpp).
std::span<const feature_set> feature_sets();

// The set of that name; throws error_kind::parameter with the known names.
const feature_set& find_feature_set(std::string_view name);

}  // namespace warploom
