#include "planner/model_inputs.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "warploom/error.hpp"
#include "warploom/locality.hpp"
#include "warploom/vector_features.hpp"

namespace warploom {
namespace {

// Added to what may be 0 before its logarithm is taken.
constexpr double small = 1e-3;

// The formulas: of one feature, of two, of k.
double log(double feature, double, double) { return std::log2(1 + feature); }
double log_by_k(double feature, double, double k) { return std::log2(1 + feature * k); }
double log_of_k(double, double, double k) { return std::log2(1 + k); }
double log_of_small(double feature, double, double) { return std::log2(feature + small * small * small); }
double log_of_root(double feature, double, double) { return std::log2(1 + std::sqrt(feature)); }
double natural_log(double feature, double, double) { return std::log1p(feature); }
double log_ratio(double first, double second, double) { return std::log2((first + small) / (second + small)); }

double share(double feature, double, double) { return feature; }

// Log of the largest power of two in a size, up to 1024: how rows and columns of B and C lie in memory.
double alignment(double size, double, double) {
  return std::log2(static_cast<double>(std::gcd(static_cast<std::int64_t>(size), std::int64_t{1024})));
}
double alignment_of_k(double, double, double k) { return alignment(k, 0, 0); }

struct row {
  const char* name;
  double (*formula)(double first, double second, double k);
  const char* first = nullptr;
  const char* second = nullptr;
};

constexpr row rows[] = {
    // Of row lengths.
    {"log_rows", log, "spmv_num_rows"},
    {"log_cols", log, "spmv_num_cols"},
    {"log_nnz", log, "spmv_nnz"},
    {"log_density", log_of_small, "spmv_density"},
    {"log_row_min", log, "spmv_nnz_per_row_min"},
    {"log_row_mean", log, "spmv_nnz_per_row_mean"},
    {"log_row_max", log, "spmv_nnz_per_row_max"},
    {"log_row_std", log_of_root, "spmv_nnz_per_row_var"},
    {"row_cov", natural_log, "spmv_nnz_per_row_cov"},
    {"log_imbalance", log_ratio, "spmv_nnz_per_row_max", "spmv_nnz_per_row_mean"},
    {"log_longest_share", log_ratio, "spmv_nnz_per_row_max", "spmv_nnz"},
    {"log_shape", log_ratio, "spmv_num_cols", "spmv_num_rows"},
    // Of the pattern.
    {"log_block_fill", log_ratio, "spmv_nnz_per_row_mean", "spmm_nnz_blocks_per_row_mean"},
    {"log_block_max", log, "spmm_nnz_blocks_per_row_max"},
    {"log_block_min", log, "spmm_nnz_blocks_per_row_min"},
    {"log_warp_load_mean", log, "spmm_warp_load_mean"},
    {"log_warp_imbalance", log_ratio, "spmm_warp_load_max", "spmm_warp_load_mean"},
    {"log_warp_idle", log_ratio, "spmm_warp_load_min", "spmm_warp_load_mean"},
    {"log_line_requests_max", log, "spmm_same_cache_lines_max"},
    {"log_line_requests_mean", log, "spmm_same_cache_lines_mean"},
    {"log_line_imbalance", log_ratio, "spmm_same_cache_lines_max", "spmm_same_cache_lines_mean"},
    {"log_lines", log, "spmm_distinct_cache_lines_per_warp_mean"},
    {"log_lines_reuse", log_ratio, "spmm_total_cache_lines_per_warp_mean", "spmm_distinct_cache_lines_per_warp_mean"},
    {"log_lines_imbalance", log_ratio, "spmm_distinct_cache_lines_per_warp_max",
     "spmm_distinct_cache_lines_per_warp_mean"},
    {"log_requests_imbalance", log_ratio, "spmm_total_cache_lines_per_warp_max",
     "spmm_total_cache_lines_per_warp_mean"},
    {"log_distance", log, "spmm_adjacent_vector_distance_mean"},
    {"log_distance_max", log, "spmm_adjacent_vector_distance_max"},
    {"log_dissimilarity", log_ratio, "spmm_adjacent_vector_distance_mean", "spmm_nnz_blocks_per_row_mean"},
    // Of the columns of B.
    {"log_k", log_of_k},
    {"log_work", log_by_k, "spmv_nnz"},
    {"log_result", log_by_k, "spmv_num_rows"},
    {"log_operand", log_by_k, "spmv_num_cols"},
    {"k_alignment", alignment_of_k},
    {"rows_alignment", alignment, "spmv_num_rows"},
    {"cols_alignment", alignment, "spmv_num_cols"},
    // Of column vectors.
    {"vectors_per_nonzero_8", share, "column_vectors_vectors_per_nonzero_8"},
    {"vector_density_8", share, "column_vectors_density_8"},
    {"single_vectors_8", share, "column_vectors_single_vectors_8"},
    {"dense_windows_8", share, "column_vectors_dense_windows_8"},
    {"vectors_per_nonzero_16", share, "column_vectors_vectors_per_nonzero_16"},
    {"vector_density_16", share, "column_vectors_density_16"},
    {"single_vectors_16", share, "column_vectors_single_vectors_16"},
    {"dense_windows_16", share, "column_vectors_dense_windows_16"},
    // Of locality; -1 where it was not measured.
    {"hidden_overlap", share, "locality_hidden_overlap"},
};

constexpr preparation_input preparation[] = {
    {"one", [](double, double, double, double) { return 1.0; }},
    {"rows", [](double rows, double, double, double) { return rows / 1e6; }},
    {"cols", [](double, double cols, double, double) { return cols / 1e6; }},
    {"nnz", [](double, double, double nnz, double) { return nnz / 1e6; }},
    {"padded", [](double rows, double, double, double longest) { return std::min(rows / 1e6 * longest, 1e3); }},
};

}  // namespace

feature_place find_feature(const char* name) {
  const std::string_view wanted = name;
  struct named_set {
    std::string_view name;
    std::span<const char* const> names;
    feature_place::values values;
  };
  const named_set sets[] = {
      {"spmv_", find_feature_set("spmv").names, &matrix_features::spmv},
      {"spmm_", find_feature_set("spmm").names, &matrix_features::spmm},
      {"column_vectors_", column_vector_feature_names(), &matrix_features::column_vectors},
      {"locality_", overlap_feature_names(), &matrix_features::locality},
  };
  for (const named_set& set : sets) {
    if (!wanted.starts_with(set.name)) continue;
    const auto found = std::find(set.names.begin(), set.names.end(), wanted.substr(set.name.size()));
    if (found != set.names.end()) return {name, set.values, static_cast<std::size_t>(found - set.names.begin())};
  }
  throw error(error_kind::parameter, "features", -1, "there is no feature '" + std::string(wanted) + "'");
}

std::span<const model_input> model_inputs() {
  static const std::vector<model_input> resolved = [] {
    const auto place = [](const char* name) { return name ? find_feature(name) : feature_place{}; };
    std::vector<model_input> inputs;
    for (const row& one : rows) inputs.push_back({one.name, one.formula, place(one.first), place(one.second)});
    return inputs;
  }();
  return resolved;
}

const model_input& find_model_input(std::string_view name) {
  const std::span<const model_input> inputs = model_inputs();
  const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const auto& input) { return input.name == name; });
  if (found != inputs.end()) return *found;
  throw error(error_kind::parameter, "names", -1, "there is no input '" + std::string(name) + "'");
}

std::span<const preparation_input> preparation_inputs() { return preparation; }

std::span<const problem_size> problem_sizes() {
  static const std::vector<problem_size> sizes{{"rows", find_feature("spmv_num_rows")},
                                               {"columns", find_feature("spmv_num_cols")},
                                               {"nonzeros", find_feature("spmv_nnz")},
                                               {"k", {}}};
  return sizes;
}

size_features sizes_of(const matrix_features& features) {
  static const feature_place rows = find_feature("spmv_num_rows");
  static const feature_place cols = find_feature("spmv_num_cols");
  static const feature_place nnz = find_feature("spmv_nnz");
  static const feature_place longest_row = find_feature("spmv_nnz_per_row_max");
  return {rows.of(features), cols.of(features), nnz.of(features), longest_row.of(features)};
}

double roofline_us(double rows, double cols, double nnz, double k, double itemsize) {
  const double from_memory = nnz * (4.0 + itemsize) + 4 * rows + (rows + cols) * k * itemsize;
  const double from_cache = nnz * k * itemsize;
  return 2.5 + from_memory / 4e6 + from_cache / 2e7;
}

double compress(double log_ratio) { return softness * std::log1p(log_ratio / softness); }

double expand(double compressed) { return softness * std::expm1(std::max(compressed, 0.0) / softness); }

}  // namespace warploom
