// The arrays of a CSR matrix: validation agrees with the definition, and whatever it lets pass is permuted, converted,
// described by features and multiplied rightly.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "fuzz.hpp"
#include "warploom/warploom.hpp"

namespace warploom {
namespace {

using fuzz::numbers;
using fuzz::require;

template <class Index>
struct arrays {
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  std::vector<std::int64_t> indptr;
  std::vector<Index> indices;
};

// Whatever the bytes are: mostly no matrix.
template <class Index>
arrays<Index> any_arrays(numbers& from) {
  arrays<Index> made;
  made.num_rows = from.up_to(20);
  made.num_cols = from.up_to(3) == 3 ? from.next<std::int64_t>() & 0x7fffffff : from.up_to(20);
  for (std::int64_t row = 0; row <= made.num_rows; ++row) {
    made.indptr.push_back(from.up_to(7) == 7 ? from.next<std::int64_t>() : from.next<std::int8_t>());
  }
  while (!from.empty() && made.indices.size() < 256) {
    made.indices.push_back(from.up_to(7) == 7 ? from.next<Index>() : static_cast<Index>(from.up_to(24)));
  }
  return made;
}

// A matrix of rows of 0 to 15 entries.
arrays<std::int32_t> matrix_arrays(numbers& from) {
  arrays<std::int32_t> made;
  made.num_rows = from.up_to(200);
  made.num_cols = 1 + from.up_to(200);
  made.indptr.push_back(0);
  for (std::int64_t row = 0; row < made.num_rows; ++row) {
    const int length = from.up_to(31);
    for (int j = 0; j < length % 16; ++j) {
      made.indices.push_back(static_cast<std::int32_t>(from.next() % made.num_cols));
    }
    made.indptr.push_back(static_cast<std::int64_t>(made.indices.size()));
  }
  return made;
}

template <class Index>
bool is_matrix(const arrays<Index>& given) {
  if (given.indptr[0] != 0) return false;
  for (std::int64_t row = 0; row < given.num_rows; ++row) {
    if (given.indptr[row + 1] < given.indptr[row]) return false;
  }
  if (given.indptr.back() > static_cast<std::int64_t>(given.indices.size())) return false;
  return std::all_of(given.indices.begin(), given.indices.begin() + given.indptr.back(), [&](Index index) {
    return std::cmp_greater_equal(index, 0) && std::cmp_less(index, given.num_cols);
  });
}

template <class Index>
bool passes(const arrays<Index>& given) {
  try {
    validate_indptr(given.indptr.data(), given.num_rows);
    const std::int64_t nnz = given.indptr.back();
    if (nnz > static_cast<std::int64_t>(given.indices.size())) return false;
    // As many as there are, in memory of their own: a sanitizer sees what is read behind them.
    const std::vector<Index> indices(given.indices.begin(), given.indices.begin() + nnz);
    validate_indices(indices.data(), nnz, given.num_cols);
    return true;
  } catch (const error& refused) {
    require(refused.kind() == error_kind::invalid_matrix, "the error is not of the matrix");
    require(refused.argument() == "indptr" || refused.argument() == "indices", "the error does not name the array");
    if (refused.argument() == "indices") {
      const Index index = given.indices.at(refused.position());
      const bool good = std::cmp_greater_equal(index, 0) && std::cmp_less(index, given.num_cols);
      require(!good, "the position is not a bad one");
    }
    return false;
  }
}

// Small integers, whose sums are exact in every type.
csr_matrix with_values(const arrays<std::int32_t>& given, value_type dtype, numbers& from) {
  csr_matrix matrix;
  matrix.num_rows = given.num_rows;
  matrix.num_cols = given.num_cols;
  matrix.dtype = dtype;
  matrix.indptr = given.indptr;
  matrix.indices = given.indices;
  matrix.data.resize(matrix.nnz() * size_of(dtype));
  dispatch_value_type(dtype, [&]<class Value>(Value) {
    for (std::int64_t j = 0; j < matrix.nnz(); ++j) {
      const Value value(static_cast<float>(from.up_to(16) - 8));
      std::memcpy(matrix.data.data() + j * sizeof value, &value, sizeof value);
    }
  });
  return matrix;
}

template <class Value>
void check_product(const csr_matrix& matrix, const candidate& chosen, const product_request& request) {
  const auto prepared = prepare(*chosen.kernel, matrix.view(), request);
  const bool by_row = request.order == layout::row_major;
  std::vector<Value> B, C(matrix.num_rows * request.k);
  for (std::int64_t i = 0; i < matrix.num_cols * request.k; ++i) B.push_back(Value(static_cast<float>(i % 5 - 2)));
  if (!C.empty()) std::memset(static_cast<void*>(C.data()), 0xff, C.size() * sizeof(Value));
  const dense_view view_B{B.data(), matrix.num_cols, request.k, by_row ? request.k : matrix.num_cols};
  const dense_view view_C{C.data(), matrix.num_rows, request.k, by_row ? request.k : matrix.num_rows};
  prepared->run(view_B, view_C, nullptr);
  std::vector<double> exact(C.size());
  reference_product(matrix.view(), view_B, request.order, exact.data(), nullptr);
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) {
    for (std::int64_t j = 0; j < request.k; ++j) {
      const Value found = C[by_row ? row * request.k + j : j * matrix.num_rows + row];
      require(static_cast<double>(found) == exact[row * request.k + j], chosen.name().c_str());
    }
  }
}

void check_matrix(const csr_matrix& matrix, numbers& from) {
  const auto algorithms = permutation_algorithms();
  const permutation_algorithm& algorithm = algorithms[from.up_to(static_cast<int>(algorithms.size()) - 1)];
  const geometry shape{1 + from.up_to(40), 1 + from.up_to(40), 1 + from.up_to(40)};
  const row_permutation perm = algorithm.compute(matrix.view(), shape);
  validate_permutation(perm, matrix.num_rows);
  require(invert(invert(perm)) == perm, "the inverse of the inverse");
  if (std::string(algorithm.name) == "cta-aware") {
    require(perm == cta_aware_by_brute_force(matrix.view(), shape), "not the nearest rows");
  }

  for (const feature_set& features : feature_sets()) {
    std::vector<double> values(features.names.size(), std::numeric_limits<double>::quiet_NaN());
    features.compute(matrix.view(), shape, values.data());
    for (const double value : values) require(std::isfinite(value), "a feature is no number");
  }

  const auto all = formats();
  const format_description& format = all[from.up_to(static_cast<int>(all.size()) - 1)];
  try {
    const auto stored = store(format, matrix.view(), {});
    const csr_matrix back = stored->to_csr();
    validate(back.view());
    require(back.num_rows == matrix.num_rows && back.num_cols == matrix.num_cols, "another shape comes back");
    if (!format.adds_repeated) require(back.indptr == matrix.indptr, "other rows come back");
    stored->fields();
  } catch (const error& refused) {  // as padding without end
    require(refused.kind() == error_kind::parameter, format.name.c_str());
  }

  const operation op = from.up_to(1) ? operation::spmv : operation::spmm;
  const auto known = kernels(op);
  const product_kernel& kernel = known[from.up_to(static_cast<int>(known.size()) - 1)];
  if (!kernel.runs_on_cpu() || !kernel.works_on(matrix.dtype)) return;
  parameter_values parameters;
  for (const parameter& of : kernel.parameters) {
    parameters[of.name] = of.values[from.up_to(static_cast<int>(of.values.size()) - 1)];
  }
  const candidate chosen = make_candidate(kernel, kernel.permutes ? algorithm.name : "none", parameters);
  product_request request;
  request.k = op == operation::spmv ? 1 : from.up_to(9);
  request.order = op == operation::spmv ? layout::column_major : kernel.layouts[from.next() % kernel.layouts.size()];
  request.parameters = chosen.parameters;
  if (chosen.is_permuted()) request.perm = perm;
  if (!reason_against(kernel, matrix.view(), request).empty()) return;
  dispatch_value_type(matrix.dtype, [&]<class Value>(Value) { check_product<Value>(matrix, chosen, request); });
}

template <class Index>
void check_any(numbers& from) {
  const auto given = any_arrays<Index>(from);
  require(passes(given) == is_matrix(given), "validation is not the definition");
}

}  // namespace
}  // namespace warploom

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace warploom;
  fuzz::numbers from({data, size});
  set_num_threads(1 + from.up_to(2));
  switch (from.up_to(5)) {
    case 0:
      check_any<std::int32_t>(from);
      break;
    case 1:
      check_any<std::int64_t>(from);
      break;
    case 2:
      check_any<std::uint64_t>(from);
      break;
    default: {
      const auto dtype = static_cast<value_type>(from.up_to(2));
      const auto given = matrix_arrays(from);
      require(passes(given), "a matrix is refused");
      check_matrix(with_values(given, dtype, from), from);
    }
  }
  return 0;
}
