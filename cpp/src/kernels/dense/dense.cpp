#include "kernels/dense/dense.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <numeric>
#include <span>
#include <type_traits>
#include <utility>

#include "kernels/cpu/tf32.hpp"
#include "kernels/cpu/work_ranges.hpp"
#include "kernels/description.hpp"
#include "kernels/spmm/cpu_transposing_plan.hpp"
#include "kernels/spmm/widening_plan.hpp"
#include "warploom/error.hpp"
#include "warploom/formats/bsr.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

convert_on_gpu_function dense_on_gpu;
prepare_cuda_function prepare_cuda_spmm_dense_cublas;
prepare_cuda_function prepare_cuda_spmm_dense_cublas_tf32;

namespace {

constexpr std::int64_t rows_per_task = 256;
constexpr std::int64_t largest_bytes = std::int64_t{1} << 33;

bool too_large(const dense_shape& shape) {
  return shape.num_rows > 0 &&
         shape.leading_dimension() > largest_bytes / static_cast<std::int64_t>(size_of(shape.dtype)) / shape.num_rows;
}

std::string size_reason(const dense_shape& shape) {
  return "would store " + std::to_string(shape.num_rows) + " x " + std::to_string(shape.leading_dimension()) +
         " entries, more than " + std::to_string(largest_bytes >> 30) + " GiB";
}

template <class Value>
void fill_row(dense_matrix& result, const csr_view& matrix, std::int64_t row) {
  auto* const values = reinterpret_cast<Value*>(result.data.data()) + row * result.shape().leading_dimension();
  std::uint32_t* const occupied = result.occupied.data() + row * result.shape().words_per_row();
  for (std::int64_t j = matrix.indptr[row]; j < matrix.indptr[row + 1]; ++j) {
    const std::int32_t column = matrix.indices[j];
    const Value value = matrix.values<Value>()[j];
    const std::uint32_t bit = std::uint32_t{1} << column % 32;
    using sum_type = accumulator_t<Value>;
    const bool repeats = occupied[column / 32] & bit;
    values[column] = repeats ? Value(sum_type(values[column]) + sum_type(value)) : value;
    occupied[column / 32] |= bit;
  }
}

// Calls visit(column) for the entries of a row.
template <class Visit>
void for_each_entry(const dense_matrix& matrix, std::int64_t row, Visit visit) {
  const std::int64_t words = matrix.shape().words_per_row();
  for (std::int64_t word = 0; word < words; ++word) {
    for (std::uint32_t bits = matrix.occupied[row * words + word]; bits != 0; bits &= bits - 1) {
      visit(static_cast<std::int32_t>(32 * word + std::countr_zero(bits)));
    }
  }
}

std::int64_t entries_of_row(const dense_matrix& matrix, std::int64_t row) {
  const std::int64_t words = matrix.shape().words_per_row();
  const std::uint32_t* const occupied = matrix.occupied.data() + row * words;
  return std::accumulate(occupied, occupied + words, std::int64_t{0},
                         [](std::int64_t sum, std::uint32_t bits) { return sum + std::popcount(bits); });
}

// ---- On the CPU

// Of operands that are rounded to TF32 if `Rounds`. Places without an entry are not multiplied, unlike on a GPU.
template <class Value, bool Rounds>
class dense_plan final : public product_plan {
 public:
  explicit dense_plan(dense_matrix matrix) : matrix_(std::move(matrix)) {
    ranges_ = balance_work(matrix_.num_rows, [&](std::int64_t row) { return entries_of_row(matrix_, row); });
  }

  void run(const dense_view& B, const dense_view& C, CUstream_st*) override {
    constexpr std::int64_t panel_width = 128;
    for_each_panel(ranges_, C.num_cols, panel_width,
                   [&](std::int64_t begin, std::int64_t end, std::int64_t first_column, std::int64_t columns) {
                     for (std::int64_t row = begin; row < end; ++row) multiply(row, B, C, first_column, columns);
                   });
  }

  std::size_t bytes() const override { return matrix_.bytes(); }
  std::vector<value_array> value_arrays() override { return {{matrix_.data.data(), matrix_.places()}}; }

 private:
  void multiply(std::int64_t row, const dense_view& B, const dense_view& C, std::int64_t first_column,
                std::int64_t columns) const {
    const auto* const values =
        reinterpret_cast<const Value*>(matrix_.data.data()) + row * matrix_.shape().leading_dimension();
    Value* const c = static_cast<Value*>(C.data) + row * C.leading_dimension + first_column;
    std::fill_n(c, columns, Value(0));
    for_each_entry(matrix_, row, [&](std::int32_t column) {
      const Value a = operand(values[column]);
      const Value* const b = static_cast<const Value*>(B.data) + column * B.leading_dimension + first_column;
      for (std::int64_t j = 0; j < columns; ++j) c[j] += a * operand(b[j]);
    });
  }

  static Value operand(Value value) {
    if constexpr (Rounds) {
      return rounded_to_tf32(value);
    } else {
      return value;
    }
  }

  dense_matrix matrix_;
  work_ranges ranges_;
};

template <product_precision Precision>
std::unique_ptr<product_plan> prepare_cpu(const csr_view& given, const product_request& request) {
  return in_float32_at_least(given, request, [](const csr_view& matrix, const product_request& same) {
    std::unique_ptr<product_plan> plan;
    if constexpr (Precision == product_precision::tf32) {
      plan = std::make_unique<dense_plan<float, true>>(to_dense(matrix));
    } else if (matrix.dtype == value_type::float64) {
      plan = std::make_unique<dense_plan<double, false>>(to_dense(matrix));
    } else {
      plan = std::make_unique<dense_plan<float, false>>(to_dense(matrix));
    }
    return in_requested_order(std::move(plan), matrix, same.order);
  });
}

// ---- Descriptions

std::string unsupported_reason(const matrix_summary& matrix, const product_request& request) {
  const std::string reason = dense_reason(matrix);
  return reason.empty() ? needs_int32_offsets(matrix, request) : reason;
}

// Where reading the values takes as long as reading a few times as many nonzeros with their indices. In float32, whose
// products are no tensor core's, a matrix with 10 places for each nonzero is slower as a dense one for every k, and one
// with 2 is faster (docs/static/dense.csv).
bool promising(const matrix_summary& matrix) {
  const std::int64_t most = matrix.dtype == value_type::float32 ? 5 : 16;
  return dense_shape{matrix.num_rows, matrix.num_cols, matrix.dtype}.places() <= most * matrix.nnz;
}

bool promising_in_tf32(const matrix_summary& matrix) {
  return dense_shape{matrix.num_rows, matrix.num_cols, matrix.dtype}.places() <= 16 * matrix.nnz;
}

std::string pattern_reason(const csr_view& matrix, const product_request&) {
  if (size_of(matrix.dtype) != 2) return "";
  return has_repeated_entries(matrix) ? dense_repeats_reason() : "";
}

product_kernel on_cublas(std::string name, std::string summary) {
  return {
      .op = operation::spmm,
      .name = std::move(name),
      .format = "dense",
      .summary = std::move(summary) +
                 " On a GPU places without an entry are multiplied: a NaN or infinity in B reaches all rows of C.",
      .source = "cuBLAS",
      .layouts = {layout::row_major, layout::column_major},
      .parameters = {},
      .permutes = false,
      .from_device = true,
      .promising = promising,
      .unsupported_reason = unsupported_reason,
      .pattern_reason = pattern_reason,
  };
}

}  // namespace

std::size_t dense_matrix::bytes() const { return data.size() + occupied.size() * sizeof(occupied[0]); }

void check_dense_size(const dense_shape& shape) {
  if (too_large(shape)) throw error(error_kind::parameter, "A", -1, "dense " + size_reason(shape));
}

// A place of two bytes on tensor cores takes next to no time beside reading it: a nonzero of a sparse format costs
// about as much as some tens of them, and fewer in float32 and float64. Past the limit nothing is to be won, and plans
// would be large: 64 places of two bytes are 128 bytes for each nonzero.
std::string dense_reason(const matrix_summary& matrix) {
  const dense_shape shape{matrix.num_rows, matrix.num_cols, matrix.dtype};
  if (too_large(shape)) return size_reason(shape);
  constexpr std::int64_t most = 64;
  if (shape.places() <= most * matrix.nnz + 4096) return "";
  return "would store " + std::to_string(shape.places()) + " entries for " + std::to_string(matrix.nnz) + " nonzeros";
}

// Their sum would be rounded to two bytes before it is multiplied.
std::string dense_repeats_reason() { return "would add repeated entries"; }

dense_matrix to_dense(const csr_view& matrix) {
  dense_matrix result;
  result.num_rows = matrix.num_rows;
  result.num_cols = matrix.num_cols;
  result.dtype = matrix.dtype;
  check_dense_size(result.shape());
  result.data.resize(result.places() * size_of(matrix.dtype));
  result.occupied.resize(matrix.num_rows * result.shape().words_per_row());
  dispatch_value_type(matrix.dtype, [&]<class Value>(Value) {
    parallel_for(0, matrix.num_rows, rows_per_task, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) fill_row<Value>(result, matrix, row);
    });
  });
  for (const std::uint32_t bits : result.occupied) result.num_entries += std::popcount(bits);
  return result;
}

csr_matrix to_csr(const dense_matrix& matrix) {
  csr_matrix result = empty_csr(matrix.num_rows, matrix.num_cols, matrix.dtype);
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) {
    result.indptr[row + 1] = result.indptr[row] + entries_of_row(matrix, row);
  }
  result.indices.resize(matrix.nnz());
  result.data.resize(matrix.nnz() * size_of(matrix.dtype));
  dispatch_value_type(matrix.dtype, [&]<class Value>(Value) {
    const auto* const from = reinterpret_cast<const Value*>(matrix.data.data());
    auto* const to = reinterpret_cast<Value*>(result.data.data());
    parallel_for(0, matrix.num_rows, rows_per_task, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        std::int64_t j = result.indptr[row];
        for_each_entry(matrix, row, [&](std::int32_t column) {
          result.indices[j] = column;
          to[j++] = from[row * matrix.shape().leading_dimension() + column];
        });
      }
    });
  });
  return result;
}

std::vector<format_field> dense_matrix::fields() const {
  return {
      {"leading_dimension", shape().leading_dimension()},
      {"data", array_of(data, dtype)},
      {"occupied", array_of(occupied)},
  };
}

product_kernel spmm_dense_cublas() {
  auto kernel = on_cublas("cublas",
                          "The matrix stored as a dense one, multiplied by the vendor's library: for float16 and "
                          "bfloat16 on tensor cores, with sums in float32 that are rounded once.");
  kernel.dtypes = all_value_types;
  kernel.prepare_cpu = prepare_cpu<product_precision::full>;
  kernel.prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmm_dense_cublas);
  return kernel;
}

product_kernel spmm_dense_cublas_tf32() {
  auto kernel = on_cublas("cublas_tf32",
                          "The matrix stored as a dense one, multiplied by the vendor's library on tensor cores in "
                          "TF32: values of A and B are rounded to 11 significant bits, sums are in float32. Only where "
                          "precision=\"tf32\" asks for it, or its name.");
  kernel.dtypes = {value_type::float32};
  kernel.precision = product_precision::tf32;
  kernel.promising = promising_in_tf32;
  kernel.prepare_cpu = prepare_cpu<product_precision::tf32>;
  kernel.prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmm_dense_cublas_tf32);
  return kernel;
}

format_description dense_format() {
  return {
      .name = "dense",
      .adds_repeated = true,
      .from_csr = [](const csr_view& matrix, const option_values&) { return stored(to_dense(matrix)); },
      .from_csr_on_gpu = WARPLOOM_CUDA(dense_on_gpu),
  };
}

}  // namespace warploom
