// Candidates: operation, row permutation, format, kernel and parameters under one stable name, such as
// "spmm/lpt/csr/c_stationary" or "spmv/none/csr/vector[threads_per_row=8]". Parameters at their default are left out,
// and the others come in the kernel's order, so that equal candidates have equal names.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "warploom/kernels/product.hpp"

namespace warploom {

// Everything needed to run a product, except the matrix.
struct candidate {
  const product_kernel* kernel = nullptr;  // of the registry
  std::string permutation;                 // "none" for the caller's order
  parameter_values parameters;             // complete

  std::string name() const;
  // "spmm/lpt/csr/c_stationary" without the parameters.
  std::string name_without_parameters() const;
  bool has_default_parameters() const;
  bool is_permuted() const { return permutation != "none"; }

  friend bool operator==(const candidate&, const candidate&) = default;
};

// Completes the parameters. Throws error_kind::parameter for an unknown parameter, a value that is not accepted, an
// unknown row permutation or one that the kernel does not take.
candidate make_candidate(const product_kernel& kernel, const std::string& permutation = "none",
                         const parameter_values& parameters = {});

// Throws error_kind::parameter if the name is not of the form op/permutation/format/kernel[parameter=value,...] or
// names something unknown.
candidate parse_candidate(std::string_view name);

struct candidate_filter {
  std::optional<layout> order;  // only kernels that work on it
  bool on_gpu = true;           // else the CPU, where parameters that it does not depend on stay at their default
  std::optional<value_type> dtype;
  product_precision precision = product_precision::full;  // tf32: kernels that round to it, too
  bool tried_on_cpu = false;  // only what is tried on a CPU: kernels that say so, in the caller's row order
};

// Every tried setting in the caller's row order, kernel by kernel, then every row permutation with default parameters.
// No candidate occurs twice.
std::vector<candidate> enumerate_candidates(operation op, const candidate_filter& filter);

// Shell-style patterns of candidate names, in which [ and ] stand for themselves; nothing matches everything.
using name_patterns = std::optional<std::vector<std::string>>;
bool matches(std::string_view name, const name_patterns& patterns);

// The kernel that "plain CSR" means for the layout: what speedups are over.
const product_kernel& baseline_kernel(operation op, layout order);
// The same on a CPU: the CSR kernel that is tried there.
const product_kernel& cpu_baseline_kernel(operation op, layout order);

// Whether the products of a kernel are as precise as is wanted, or more so.
bool is_precise_enough(const product_kernel& kernel, product_precision wanted);

// Whether the candidate need not be tried on such a matrix: it cannot pay off, or another one does the same work.
bool is_redundant(const candidate& tried, const matrix_summary& matrix, std::int64_t k, layout order);

operation parse_operation(std::string_view name);
product_precision parse_precision(std::string_view name);
layout parse_layout(std::string_view name);

}  // namespace warploom
