#include "kernels/spmm/cpu_transposing_plan.hpp"

#include <algorithm>
#include <utility>
#include <vector>

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
using doubles = double __attribute__((vector_size(32), aligned(8), may_alias));

template <class Value>
struct line_of {
  using type = floats;
};
template <>
struct line_of<double> {
  using type = doubles;
};

WARPLOOM_INLINE void interleave(const floats& a, const floats& b, floats* to) {
  to[0] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  to[1] = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}

WARPLOOM_INLINE void interleave(const doubles& a, const doubles& b, doubles* to) {
  to[0] = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  to[1] = __builtin_shufflevector(a, b, 2, 6, 3, 7);
}
#endif

// to[j * ldto + i] = from[i * ldfrom + j] for i, j below the size of a block. Interleaving rows with those half a block
// further on, as often as halving leaves something, makes columns of them.
template <class Value>
WARPLOOM_INLINE void transpose_block(const Value* from, std::int64_t ldfrom, Value* to, std::int64_t ldto) {
  constexpr int size = block<Value>;
#if defined(__GNUC__)
  using line = typename line_of<Value>::type;
  line lines[size], next[size];
  // Unrolled, or lines would lie in memory.
#pragma GCC unroll 8
  for (int i = 0; i < size; ++i) lines[i] = *reinterpret_cast<const line*>(from + i * ldfrom);
#pragma GCC unroll 3
  for (int left = size; left > 1; left /= 2) {
#pragma GCC unroll 4
    for (int i = 0; i < size / 2; ++i) interleave(lines[i], lines[i + size / 2], next + 2 * i);
#pragma GCC unroll 8
    for (int i = 0; i < size; ++i) lines[i] = next[i];
  }
#pragma GCC unroll 8
  for (int j = 0; j < size; ++j) *reinterpret_cast<line*>(to + j * ldto) = lines[j];
#else
  for (int j = 0; j < size; ++j) {
    for (int i = 0; i < size; ++i) to[j * ldto + i] = from[i * ldfrom + j];
  }
#endif
}

// The same for i < rows, j < cols.
template <class Value>
WARPLOOM_INLINE void transpose_tile(const Value* from, std::int64_t ldfrom, Value* to, std::int64_t ldto,
                                    std::int64_t rows, std::int64_t cols) {
  constexpr int size = block<Value>;
  std::int64_t i = 0;
  for (; i + size <= rows; i += size) {
    std::int64_t j = 0;
    for (; j + size <= cols; j += size) transpose_block(from + i * ldfrom + j, ldfrom, to + j * ldto + i, ldto);
    for (; j < cols; ++j) {
      for (std::int64_t n = i; n < i + size; ++n) to[j * ldto + n] = from[n * ldfrom + j];
    }
  }
  for (; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) to[j * ldto + i] = from[i * ldfrom + j];
  }
}

template <class Value>
WARPLOOM_FOR_AVX2 void transpose_tile_avx2(const Value* from, std::int64_t ldfrom, Value* to, std::int64_t ldto,
                                           std::int64_t rows, std::int64_t cols) {
  transpose_tile(from, ldfrom, to, ldto, rows, cols);
}

// to[j * ldto + i] = from[i * ldfrom + j] for i < rows, j < cols, tile by tile so that both sides stay in the cache.
template <class Value>
void transpose(const Value* from, std::int64_t ldfrom, Value* to, std::int64_t ldto, std::int64_t rows,
               std::int64_t cols) {
  constexpr std::int64_t width = 32, height = 512;       // of a tile of `from`
  constexpr std::int64_t elements_per_thread = 1 << 16;  // that are worth a thread
  const bool wide = best_instruction_set() != instruction_set::baseline;
  const std::int64_t threads = std::min<std::int64_t>(num_threads(), rows * cols / elements_per_thread);
  const std::int64_t across = (cols + width - 1) / width, down = (rows + height - 1) / height;
  for_each_together(across * down, static_cast<int>(threads), [&](std::int64_t tile) {
    const std::int64_t j = tile % across * width, i = tile / across * height;
    const std::int64_t tile_rows = std::min(height, rows - i), tile_cols = std::min(width, cols - j);
    const auto transpose_it = wide ? transpose_tile_avx2<Value> : transpose_tile<Value>;
    transpose_it(from + i * ldfrom + j, ldfrom, to + j * ldto + i, ldto, tile_rows, tile_cols);
  });
}

template <class Value>
class transposing_plan final : public product_plan {
 public:
  explicit transposing_plan(std::unique_ptr<product_plan> inner) : inner_(std::move(inner)) {}

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    const std::int64_t k = C.num_cols;
    B_.resize(B.num_rows * k);
    C_.resize(C.num_rows * k);
    transpose(static_cast<const Value*>(B.data), B.leading_dimension, B_.data(), k, k, B.num_rows);
    inner_->run({B_.data(), B.num_rows, k, k}, {C_.data(), C.num_rows, k, k}, stream);
    transpose(C_.data(), k, static_cast<Value*>(C.data), C.leading_dimension, C.num_rows, k);
  }

  std::size_t bytes() const override { return inner_->bytes() + (B_.size() + C_.size()) * sizeof(Value); }
  std::vector<value_array> value_arrays() override { return inner_->value_arrays(); }

 private:
  std::unique_ptr<product_plan> inner_;
  std::vector<Value> B_;
  std::vector<Value> C_;
};

}  // namespace

std::unique_ptr<product_plan> make_cpu_transposing_plan(std::unique_ptr<product_plan> inner, value_type dtype) {
  return dispatch_wide_value_type(dtype, [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<transposing_plan<decltype(value)>>(std::move(inner));
  });
}

std::unique_ptr<product_plan> in_requested_order(std::unique_ptr<product_plan> row_major, value_type dtype,
                                                 layout order) {
  if (order == layout::row_major) return row_major;
  return make_cpu_transposing_plan(std::move(row_major), dtype);
}

}  // namespace warploom
