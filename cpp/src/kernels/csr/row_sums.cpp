#include "kernels/csr/row_sums.hpp"

#if defined(__GNUC__) && !defined(__clang__)
// What is to be a vector here is written as one. GCC would gather the products of a row of three and add them one by
// one.
#pragma GCC optimize("no-tree-vectorize")
#endif

#include <type_traits>

#include "kernels/cpu/instruction_sets.hpp"

#if WARPLOOM_HAS_X86_SETS
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // in the header itself: GCC bug 105593
#endif
#include <immintrin.h>
#endif

namespace warploom {
namespace {

// Long rows have four sums at a time: one alone waits for each addition before the next. Where each row goes is decided
// outside the loop, which for rows of two or three nonzeros has little else to do.
template <bool in_order, class Value, class Offset>
WARPLOOM_INLINE void add_rows_to(const csr_rows_view<Value, Offset>& rows, std::int64_t begin, std::int64_t end,
                                 const Value* x, Value* y) {
  constexpr Offset long_row = 16;
  using sum_type = accumulator_t<Value>;
  const Offset* const indptr = rows.indptr;
  const std::int32_t* const indices = rows.indices;
  const Value* const values = rows.values;
  Offset j = indptr[begin];
  for (std::int64_t p = begin; p < end; ++p) {
    const Offset last = indptr[p + 1];
    sum_type sum = 0;
    if (last - j >= long_row) {
      sum_type sums[4] = {};
      for (; last - j >= 4; j += 4) {
        for (int t = 0; t < 4; ++t) sums[t] += values[j + t] * x[indices[j + t]];
      }
      sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
    for (; j < last; ++j) sum += values[j] * x[indices[j]];
    y[in_order ? p : rows.row_ids[p]] = Value(sum);
  }
}

template <class Value, class Offset>
WARPLOOM_INLINE void add_rows(const csr_rows_view<Value, Offset>& rows, std::int64_t begin, std::int64_t end,
                              const Value* x, Value* y) {
  if (begin == end) return;
  if (rows.row_ids) return add_rows_to<false>(rows, begin, end, x, y);
  add_rows_to<true>(rows, begin, end, x, y);
}

template <class Value, class Offset>
void add_rows_baseline(const csr_rows_view<Value, Offset>& rows, std::int64_t begin, std::int64_t end, const Value* x,
                       Value* y) {
  add_rows(rows, begin, end, x, y);
}

#if WARPLOOM_HAS_X86_SETS

template <class Value, class Offset>
WARPLOOM_FOR_AVX2 void add_rows_avx2(const csr_rows_view<Value, Offset>& rows, std::int64_t begin, std::int64_t end,
                                     const Value* x, Value* y) {
  add_rows(rows, begin, end, x, y);
}

// A row takes as many vectors as it needs, the last of them masked: no branch depends on its exact length, which the
// processor could not predict where rows differ.
template <class Offset>
WARPLOOM_FOR_AVX512 void add_rows_avx512(const csr_rows_view<double, Offset>& rows, std::int64_t begin,
                                         std::int64_t end, const double* x, double* y) {
  for (std::int64_t p = begin; p < end; ++p) {
    std::int64_t j = rows.indptr[p];
    const std::int64_t last = rows.indptr[p + 1];
    if (j == last) {  // not a vector for nothing, where most rows are empty
      y[rows.row_ids ? rows.row_ids[p] : p] = 0;
      continue;
    }
    __m512d sum = _mm512_setzero_pd();
    for (; j + 8 <= last; j += 8) {
      const __m256i columns = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows.indices + j));
      sum = _mm512_fmadd_pd(_mm512_loadu_pd(rows.values + j), _mm512_i32gather_pd(columns, x, 8), sum);
    }
    const auto rest = static_cast<__mmask8>((1u << (last - j)) - 1);
    const __m256i columns = _mm256_maskz_loadu_epi32(rest, rows.indices + j);
    const __m512d gathered = _mm512_mask_i32gather_pd(_mm512_setzero_pd(), rest, columns, x, 8);
    sum = _mm512_fmadd_pd(_mm512_maskz_loadu_pd(rest, rows.values + j), gathered, sum);
    y[rows.row_ids ? rows.row_ids[p] : p] = _mm512_reduce_add_pd(sum);
  }
}

template <class Offset>
WARPLOOM_FOR_AVX512 void add_rows_avx512(const csr_rows_view<float, Offset>& rows, std::int64_t begin, std::int64_t end,
                                         const float* x, float* y) {
  for (std::int64_t p = begin; p < end; ++p) {
    std::int64_t j = rows.indptr[p];
    const std::int64_t last = rows.indptr[p + 1];
    if (j == last) {
      y[rows.row_ids ? rows.row_ids[p] : p] = 0;
      continue;
    }
    __m512 sum = _mm512_setzero_ps();
    for (; j + 16 <= last; j += 16) {
      const __m512i columns = _mm512_loadu_si512(rows.indices + j);
      sum = _mm512_fmadd_ps(_mm512_loadu_ps(rows.values + j), _mm512_i32gather_ps(columns, x, 4), sum);
    }
    const auto rest = static_cast<__mmask16>((1u << (last - j)) - 1);
    const __m512i columns = _mm512_maskz_loadu_epi32(rest, rows.indices + j);
    const __m512 gathered = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), rest, columns, x, 4);
    sum = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(rest, rows.values + j), gathered, sum);
    y[rows.row_ids ? rows.row_ids[p] : p] = _mm512_reduce_add_ps(sum);
  }
}

#endif

}  // namespace

row_lengths_are regularity(const csr_pattern& matrix) {
  constexpr std::int64_t short_row = 16;
  // Where x is far larger than the caches and rows are very short, loads of x are all that takes time: most are under
  // way at once if there are few instructions between them.
  constexpr std::int64_t large_x = 1 << 20, very_short_row = 4;
  if (matrix.num_cols > large_x && matrix.nnz() < very_short_row * matrix.num_rows) return row_lengths_are::regular;
  std::int64_t changes = 0;
  for (std::int64_t row = 1; row < matrix.num_rows; ++row) {
    changes += matrix.row_length(row) != matrix.row_length(row - 1);
  }
  const bool regular = 10 * changes < matrix.num_rows && matrix.nnz() < short_row * matrix.num_rows;
  return regular ? row_lengths_are::regular : row_lengths_are::irregular;
}

template <class Value, class Offset>
row_sums_function<Value, Offset> row_sums_for_this_cpu([[maybe_unused]] row_lengths_are lengths) {
#if WARPLOOM_HAS_X86_SETS
  const instruction_set best = best_instruction_set();
  if constexpr (std::is_same_v<Value, double> || std::is_same_v<Value, float>) {
    if (best == instruction_set::avx512 && has_fast_gathers() && lengths == row_lengths_are::irregular) {
      return [](const csr_rows_view<Value, Offset>& rows, std::int64_t begin, std::int64_t end, const Value* x,
                Value* y) { add_rows_avx512(rows, begin, end, x, y); };
    }
    if (best != instruction_set::baseline) return add_rows_avx2<Value, Offset>;
  }
#endif
  return add_rows_baseline<Value, Offset>;
}

template row_sums_function<double, std::int32_t> row_sums_for_this_cpu(row_lengths_are);
template row_sums_function<float, std::int32_t> row_sums_for_this_cpu(row_lengths_are);
template row_sums_function<float16, std::int32_t> row_sums_for_this_cpu(row_lengths_are);
template row_sums_function<bfloat16, std::int32_t> row_sums_for_this_cpu(row_lengths_are);
template row_sums_function<double, std::int64_t> row_sums_for_this_cpu(row_lengths_are);
template row_sums_function<float, std::int64_t> row_sums_for_this_cpu(row_lengths_are);
template row_sums_function<float16, std::int64_t> row_sums_for_this_cpu(row_lengths_are);
template row_sums_function<bfloat16, std::int64_t> row_sums_for_this_cpu(row_lengths_are);

}  // namespace warploom
