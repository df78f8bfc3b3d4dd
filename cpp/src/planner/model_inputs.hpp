// What the models that choose read, and how what they say becomes times.
//
// Made here from the features of a matrix and the columns of B, for training and for use alike, so that the two cannot
// differ. An input is a row of the registry (model_inputs.cpp): a formula of at most two features and of k.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "warploom/features.hpp"

namespace warploom {

// A feature of one of the sets.
struct feature_place {
  using values = std::vector<double> matrix_features::*;

  const char* name = nullptr;  // with the set before it: "spmv_nnz"; null: an input needs no such feature
  values set = &matrix_features::spmv;
  std::size_t position = 0;  // in its set

  double of(const matrix_features& features) const { return (features.*set)[position]; }
};

struct model_input {
  const char* name;
  double (*formula)(double first, double second, double k);
  feature_place first;
  feature_place second;

  // Whether it needs features of a set: &matrix_features::spmm.
  bool needs(feature_place::values set) const {
    return (first.name && first.set == set) || (second.name && second.set == set);
  }

  double value(const matrix_features& features, double k) const {
    return formula(first.name ? first.of(features) : 0, second.name ? second.of(features) : 0, k);
  }
};

// The registry.
std::span<const model_input> model_inputs();

// Throws error_kind::parameter if there is none.
const model_input& find_model_input(std::string_view name);

// What the time of a preparation is a sum of: 1; rows, columns and nonzeros in millions; and rows times the longest
// row, in millions, at most a thousand.
struct preparation_input {
  const char* name;
  double (*formula)(double rows, double cols, double nnz, double longest_row);
};

std::span<const preparation_input> preparation_inputs();

// A size of a problem, by which it is told from those that were measured.
struct problem_size {
  const char* name;
  feature_place feature;  // without a name: k itself

  double value(const matrix_features& features, double k) const { return feature.name ? feature.of(features) : k; }
};

std::span<const problem_size> problem_sizes();

// The features that a preparation and the roofline depend on.
struct size_features {
  double rows;
  double cols;
  double nnz;
  double longest_row;
};

size_features sizes_of(const matrix_features& features);

// The place of a feature such as "spmv_nnz"; throws error_kind::parameter if there is none.
feature_place find_feature(const char* name);

// A rough time of the product in microseconds, which models correct by a factor.
//
// It grows as times do, so that the factor does not: trees cannot extrapolate. The latency is that of a
// launch, the bandwidths are those of memory and cache of an H200.
double roofline_us(double rows, double cols, double nnz, double k, double itemsize);

// Compresses logarithms of time / least time, so that what is close to the fastest counts most; and undoes it, where
// what is below 0 becomes 0.
double compress(double log_ratio);
double expand(double compressed);

// Of `compress`: log ratios well below it are kept, those well above are compressed.
inline constexpr double softness = 0.1;

// Of `choice::doubt`: how many candidates count, and the difference of compressed logarithms at which one counts 1 / e.
inline constexpr int num_near = 6;
inline constexpr double nearness = 0.05;

// Outputs of a model that chooses, before those of the candidates: the logarithm of the least time over the roofline,
// and of what is expected to be lost by its choice.
inline constexpr const char* reference_output = "reference";
inline constexpr const char* loss_output = "loss";

}  // namespace warploom
