#include "kernels/spmm/cpu_transposing_plan.hpp"

#include <algorithm>
#include <utility>

#include "huge_page_allocator.hpp"
#include "kernels/cpu/instruction_sets.hpp"
#include "kernels/cpu/work_ranges.hpp"
#include "warploom/parallel.hpp"

namespace warploom {
namespace {

// Rows and columns that are transposed in registers.
template <class Value>
constexpr int block = 32 / sizeof(Value);

#if defined(__GNUC__)
// Wherever values lie.
using floats = float __attribute__((vector_size(32), aligned(4), may_alias));
using half_floats = float __attribute__((vector_size(16), aligned(4), may_alias));
using doubles = double __attribute__((vector_size(32), aligned(8), may_alias));
using half_doubles = double __attribute__((vector_size(16), aligned(8), may_alias));

// Halves of lines that are half a block apart are put together as they are loaded, which takes no shuffle: what is left
// is to transpose squares of half the size, each within a half of the registers.
WARPLOOM_INLINE void transpose_block(const float* from, std::int64_t ldfrom, float* to, std::int64_t ldto) {
  const auto load = [&](int i, int j, floats& line) {
    const auto& upper = *reinterpret_cast<const half_floats*>(from + i * ldfrom + j);
    const auto& lower = *reinterpret_cast<const half_floats*>(from + (i + 4) * ldfrom + j);
    line = __builtin_shufflevector(upper, lower, 0, 1, 2, 3, 4, 5, 6, 7);
  };
  const auto store = [&](int j, const floats& line) { *reinterpret_cast<floats*>(to + j * ldto) = line; };
#pragma GCC unroll 2
  for (int j = 0; j < 8; j += 4) {
    floats a, b, c, d;
    load(0, j, a);
    load(1, j, b);
    load(2, j, c);
    load(3, j, d);
    const floats ab = __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
    const floats cd = __builtin_shufflevector(c, d, 0, 8, 1, 9, 4, 12, 5, 13);
    store(j, __builtin_shufflevector(ab, cd, 0, 1, 8, 9, 4, 5, 12, 13));
    store(j + 1, __builtin_shufflevector(ab, cd, 2, 3, 10, 11, 6, 7, 14, 15));
    const floats right_ab = __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
    const floats right_cd = __builtin_shufflevector(c, d, 2, 10, 3, 11, 6, 14, 7, 15);
    store(j + 2, __builtin_shufflevector(right_ab, right_cd, 0, 1, 8, 9, 4, 5, 12, 13));
    store(j + 3, __builtin_shufflevector(right_ab, right_cd, 2, 3, 10, 11, 6, 7, 14, 15));
  }
}

WARPLOOM_INLINE void transpose_block(const double* from, std::int64_t ldfrom, double* to, std::int64_t ldto) {
  const auto load = [&](int i, int j, doubles& line) {
    const auto& upper = *reinterpret_cast<const half_doubles*>(from + i * ldfrom + j);
    const auto& lower = *reinterpret_cast<const half_doubles*>(from + (i + 2) * ldfrom + j);
    line = __builtin_shufflevector(upper, lower, 0, 1, 2, 3);
  };
  const auto store = [&](int j, const doubles& line) { *reinterpret_cast<doubles*>(to + j * ldto) = line; };
#pragma GCC unroll 2
  for (int j = 0; j < 4; j += 2) {
    doubles a, b;
    load(0, j, a);
    load(1, j, b);
    store(j, __builtin_shufflevector(a, b, 0, 4, 2, 6));
    store(j + 1, __builtin_shufflevector(a, b, 1, 5, 3, 7));
  }
}
#else
template <class Value>
void transpose_block(const Value* from, std::int64_t ldfrom, Value* to, std::int64_t ldto) {
  for (int j = 0; j < block<Value>; ++j) {
    for (int i = 0; i < block<Value>; ++i) to[j * ldto + i] = from[i * ldfrom + j];
  }
}
#endif

// to[j * ldto + i] = from[i * ldfrom + j] for i < rows, j < cols. Along the lines that are further apart, so that each
// of them is read or written at once: where they are a power of two apart, the cache holds few of them at a time.
template <class Value>
WARPLOOM_INLINE void transpose_tile(const Value* from, std::int64_t ldfrom, Value* to, std::int64_t ldto,
                                    std::int64_t rows, std::int64_t cols) {
  constexpr int size = block<Value>;
  const std::int64_t whole_rows = rows / size * size, whole_cols = cols / size * size;
  if (ldfrom > ldto) {
    for (std::int64_t i = 0; i < whole_rows; i += size) {
      for (std::int64_t j = 0; j < whole_cols; j += size) {
        transpose_block(from + i * ldfrom + j, ldfrom, to + j * ldto + i, ldto);
      }
    }
  } else {
    for (std::int64_t j = 0; j < whole_cols; j += size) {
      for (std::int64_t i = 0; i < whole_rows; i += size) {
        transpose_block(from + i * ldfrom + j, ldfrom, to + j * ldto + i, ldto);
      }
    }
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = i < whole_rows ? whole_cols : 0; j < cols; ++j) to[j * ldto + i] = from[i * ldfrom + j];
  }
}

template <class Value>
WARPLOOM_FOR_AVX2 void transpose_tile_avx2(const Value* from, std::int64_t ldfrom, Value* to, std::int64_t ldto,
                                           std::int64_t rows, std::int64_t cols) {
  transpose_tile(from, ldfrom, to, ldto, rows, cols);
}

int threads_to_transpose(std::int64_t elements) {
  constexpr std::int64_t elements_per_thread = 1 << 16;  // that are worth a thread
  return static_cast<int>(std::clamp<std::int64_t>(elements / elements_per_thread, 1, num_threads()));
}

// to[j * ldto + i] = from[i * ldfrom + j] for i < rows, j < cols, tile by tile so that both sides stay in the cache.
template <class Value>
void transpose(const Value* from, std::int64_t ldfrom, Value* to, std::int64_t ldto, std::int64_t rows,
               std::int64_t cols) {
  constexpr std::int64_t width = 32, height = 256;  // of a tile of `from`
  const bool wide = best_instruction_set() != instruction_set::baseline;
  const int threads = threads_to_transpose(rows * cols);
  const std::int64_t across = (cols + width - 1) / width, down = (rows + height - 1) / height;
  for_each_together(across * down, threads, [&](std::int64_t tile) {
    const std::int64_t j = tile % across * width, i = tile / across * height;
    const std::int64_t tile_rows = std::min(height, rows - i), tile_cols = std::min(width, cols - j);
    const auto transpose_it = wide ? transpose_tile_avx2<Value> : transpose_tile<Value>;
    transpose_it(from + i * ldfrom + j, ldfrom, to + j * ldto + i, ldto, tile_rows, tile_cols);
  });
}

template <class Value>
class transposing_plan final : public product_plan {
 public:
  transposing_plan(std::unique_ptr<product_plan> inner, const csr_view& matrix)
      : inner_(std::move(inner)), has_long_rows_(matrix.nnz() >= long_row * matrix.num_rows) {}

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    const std::int64_t k = C.num_cols;
    // What one thread transposes is in the cache of its core, from where it takes longer to reach another one than
    // short rows take to add up.
    const bool in_one_cache = threads_to_transpose(std::max(B.num_rows, C.num_rows) * k) == 1;
    const fewer_threads limit(in_one_cache && !has_long_rows_ ? 1 : num_threads());
    B_.resize(B.num_rows * k);
    C_.resize(C.num_rows * k);
    transpose(static_cast<const Value*>(B.data), B.leading_dimension, B_.data(), k, k, B.num_rows);
    inner_->run({B_.data(), B.num_rows, k, k}, {C_.data(), C.num_rows, k, k}, stream);
    transpose(C_.data(), k, static_cast<Value*>(C.data), C.leading_dimension, C.num_rows, k);
  }

  std::size_t bytes() const override { return inner_->bytes() + (B_.size() + C_.size()) * sizeof(Value); }
  std::vector<value_array> value_arrays() override { return inner_->value_arrays(); }

 private:
  static constexpr std::int64_t long_row = 32;  // nonzeros, in the mean

  std::unique_ptr<product_plan> inner_;
  bool has_long_rows_;
  // A vector that lies across two cache lines takes longer to load and to store.
  huge_vector<Value> B_;
  huge_vector<Value> C_;
};

}  // namespace

std::unique_ptr<product_plan> in_requested_order(std::unique_ptr<product_plan> row_major, const csr_view& matrix,
                                                 layout order) {
  if (order == layout::row_major) return row_major;
  return dispatch_wide_value_type(matrix.dtype, [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<transposing_plan<decltype(value)>>(std::move(row_major), matrix);
  });
}

}  // namespace warploom
